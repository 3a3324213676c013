//! The flags that a blocked change needs: the planner itself is asked, with one flag more each time.
//!
//! One block may hide the next: a redeploy that is allowed may still lack a proof of its machine's identity. So the set
//! that is named is found by making the plan again, and is minimal: with it the change is carried out, with any part of it
//! the change stays blocked.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Serialize;

use super::{Block, Change, Error, Input, Options, Plan, make};
use crate::design::NodeName;

/// More flags than any change has blocks.
const MOST_FLAGS: usize = 8;

/// The way to a change that is not blocked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unblocking {
    /// The blocks that a flag takes away, each with its flag: all of them are needed.
    pub flags: Vec<Block>,
    /// The block that no flag takes away.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remaining: Option<Block>,
    /// All flags of the plan that has them, as on the command line.
    pub command: Vec<String>,
}

impl Input<'_> {
    /// The same input with other options.
    fn with_options(&self, options: Options) -> Input<'_> {
        Input {
            request: self.request.clone(),
            target: self.target.clone(),
            after: self.after,
            designs: self.designs,
            base: self.base.clone(),
            records: self.records,
            reservations: self.reservations,
            former: self.former,
            renames: self.renames,
            observations: self.observations,
            options,
            intermediate_commits: self.intermediate_commits.clone(),
            history: self.history.clone(),
            signers_changed: self.signers_changed,
            guards: self.guards,
            reasons: self.reasons,
            resumes: self.resumes,
        }
    }
}

impl Options {
    /// Takes in a flag as a block names it (`--allow-redeploy n4`); whether it is one that allows something by name.
    pub fn allow(&mut self, flag: &str) -> bool {
        let mut words = flag.split(' ').peekable();
        let mut is_known = words.peek().is_some();
        while let Some(name) = words.next() {
            if name == "--i-have-checked" {
                self.leaving.checked_gone = true;
                continue;
            }
            let Some(word) = words.next() else {
                return false;
            };
            is_known &= self.allow_word(name, word);
        }
        is_known
    }

    fn allow_word(&mut self, name: &str, word: &str) -> bool {
        let of_nodes = self.allowances_mut().into_iter();
        if let Some((_, allowance)) = of_nodes.into_iter().find(|(flag, _)| *flag == name) {
            allowance.nodes.insert(Arc::from(word));
            return true;
        }
        let sets: [(&str, &mut BTreeSet<Arc<str>>); 3] = [
            ("--no-etcd-here", &mut self.leaving.no_etcd_here),
            ("--node-is-gone", &mut self.leaving.gone),
            ("--destroy-etcd", &mut self.leaving.destroy_etcd),
        ];
        if let Some((_, set)) = sets.into_iter().find(|(flag, _)| *flag == name) {
            set.insert(Arc::from(word));
            return true;
        }
        match (name, word.parse()) {
            ("--max-unhealthy", Ok(share)) => {
                self.remediation.max_unhealthy = Some(share);
                true
            }
            _ => false,
        }
    }

    fn allowing(&self, blocks: &[Block]) -> Self {
        let mut options = self.clone();
        for flag in blocks.iter().filter_map(|block| block.flag.as_deref()) {
            options.allow(flag);
        }
        options
    }
}

fn block_of(plan: &Plan, node: &NodeName) -> Option<Block> {
    let found = plan.changes.iter().find(|change| change.node == *node);
    found.and_then(|change: &Change| change.blocked.clone())
}

/// Returns what the blocked change of a node needs; `None` if it is not blocked.
///
/// # Errors
///
/// A flag is one that the policy forbids, or the plan cannot be made with it.
pub fn unblocking(
    input: &Input<'_>,
    plan: &Plan,
    node: &NodeName,
) -> Result<Option<Unblocking>, Error> {
    let Some(mut block) = block_of(plan, node) else {
        return Ok(None);
    };
    let own = &input.options;
    let is_blocked = |blocks: &[Block]| {
        let plan = make(&input.with_options(own.allowing(blocks)))?;
        Ok::<_, Error>(block_of(&plan, node))
    };
    let mut flags: Vec<Block> = Vec::new();
    let mut remaining = None;
    loop {
        let is_new = flags.iter().all(|known| known.flag != block.flag);
        let can_be_given = block
            .flag
            .as_deref()
            .is_some_and(|flag| own.clone().allow(flag));
        if !is_new || !can_be_given || flags.len() >= MOST_FLAGS {
            remaining = Some(block);
            break;
        }
        flags.push(block);
        match is_blocked(&flags)? {
            None => break,
            Some(next) => block = next,
        }
    }
    // What a later flag includes is not asked for, as `--i-have-checked --node-is-gone` includes `--node-is-gone`.
    let mut position = 0;
    while flags.len() > 1 && position < flags.len() {
        let mut fewer = flags.clone();
        fewer.remove(position);
        match is_blocked(&fewer)? == remaining {
            true => flags = fewer,
            false => position += 1,
        }
    }
    let command = own.allowing(&flags).allowances();
    Ok(Some(Unblocking {
        flags,
        remaining,
        command,
    }))
}
