//! Integration tests, one binary for all.

#[cfg(test)]
mod accepted;
mod addresses;
#[cfg(test)]
mod amount;
#[cfg(test)]
mod approvals;
#[cfg(test)]
mod architecture;
#[cfg(test)]
mod bugs;
#[cfg(test)]
mod checkout_files;
#[cfg(test)]
mod circles;
#[cfg(test)]
mod cli_accept;
#[cfg(test)]
mod cli_accept_write;
#[cfg(test)]
mod cli_actions;
#[cfg(test)]
mod cli_adopt;
#[cfg(test)]
mod cli_apply;
#[cfg(test)]
mod cli_apply_changes;
#[cfg(test)]
mod cli_bundle;
#[cfg(test)]
mod cli_comment;
#[cfg(test)]
mod cli_complete;
#[cfg(test)]
mod cli_demo;
#[cfg(test)]
mod cli_doctor;
#[cfg(test)]
mod cli_estimate;
#[cfg(test)]
mod cli_explain;
#[cfg(test)]
mod cli_export;
#[cfg(test)]
mod cli_help;
#[cfg(test)]
mod cli_interrupted;
#[cfg(test)]
mod cli_log;
#[cfg(test)]
mod cli_migrate;
#[cfg(test)]
mod cli_nodes;
#[cfg(test)]
mod cli_pages;
#[cfg(test)]
mod cli_plan_to;
#[cfg(test)]
mod cli_policy;
#[cfg(test)]
mod cli_remediate;
#[cfg(test)]
mod cli_render;
#[cfg(test)]
mod cli_repositories;
#[cfg(test)]
mod cli_run_parts;
#[cfg(test)]
mod cli_saved_plan;
#[cfg(test)]
mod cli_schemas;
#[cfg(test)]
mod cli_short_plan;
#[cfg(test)]
mod cli_signals;
#[cfg(test)]
mod cli_status;
#[cfg(test)]
mod cli_trust;
#[cfg(test)]
mod cli_try;
#[cfg(test)]
mod cli_usage;
#[cfg(test)]
mod cli_validate;
#[cfg(test)]
mod crash;
#[cfg(test)]
mod deploy;
#[cfg(test)]
mod design_seaworthy;
#[cfg(test)]
mod dice;
#[cfg(test)]
mod document;
mod elsewhere;
#[cfg(test)]
mod firmware_fleet;
#[cfg(test)]
mod fixture;
#[cfg(test)]
mod flags;
#[cfg(test)]
mod fmt;
#[cfg(test)]
mod folder;
#[cfg(test)]
mod forge_server;
#[cfg(test)]
mod forged;
#[cfg(test)]
mod git;
#[cfg(test)]
mod guards_at_places;
#[cfg(test)]
mod guards_kept;
#[cfg(test)]
mod guards_of_actions;
#[cfg(test)]
mod guards_of_now;
#[cfg(test)]
mod hostile;
#[cfg(test)]
#[cfg(unix)]
#[cfg(test)]
mod hostile_repositories;
#[cfg(test)]
mod images;
#[cfg(test)]
mod in_the_way;
#[cfg(test)]
mod killed;
#[cfg(test)]
mod kinds_of_repository;
#[cfg(test)]
mod many_sites;
#[cfg(test)]
mod masks;
#[cfg(test)]
mod notify;
#[cfg(test)]
mod outputs;
#[cfg(test)]
mod owed_records;
#[cfg(test)]
mod pods;
#[cfg(test)]
mod readme;
#[cfg(test)]
mod record;
#[cfg(test)]
mod recording;
#[cfg(test)]
mod records_renewed;
#[cfg(test)]
mod remote;
#[cfg(test)]
mod render_vectors;
#[cfg(test)]
mod repository;
#[cfg(test)]
mod reserve;
#[cfg(test)]
mod rollout;
#[cfg(test)]
mod secrets;
#[cfg(unix)]
#[cfg(test)]
mod serve;
#[cfg(test)]
mod session;
#[cfg(test)]
mod shared;
#[cfg(test)]
mod shell;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod site_examples;
#[cfg(test)]
mod site_units;
#[cfg(test)]
mod skipped;
#[cfg(test)]
mod soaked;
#[cfg(test)]
mod source_files;
#[cfg(test)]
mod telemetry;
#[cfg(test)]
mod terminal;
#[cfg(test)]
mod transcripts;
#[cfg(test)]
mod unavailable;
#[cfg(test)]
mod verbose;
#[cfg(test)]
mod vocabulary;

/// The program's, which takes less time than the system's: the simulations live of it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
#[cfg(test)]
mod workers;
