//! Repositories that somebody made to do harm, one for each trick, and the commands that a pipeline runs on a
//! pull request: no program but git is run, nothing is connected to, and no file is opened that is none of the
//! checkout's, git's, the operator's or the system's.
//!
//! The commands run under limits of the kernel for processor time and memory, and, if there is `strace`
//! that may watch processes, under an allow-list of what they open.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use super::amount::every;
use super::fixture::{Ended, Fixture, copy_folder};
use super::git::Checkout;
use super::skipped::{self, skipped};

/// What a pipeline runs on a pull request: what contacts nothing, and what contacts nothing that is not trusted. The first is
/// tried with each trick, and of the others two, spread evenly.
const COMMANDS: [&[&str]; 9] = [
    &["plan"],
    &["validate"],
    &["render"],
    &["diff", "--base", "HEAD~1"],
    &["diff", "--base", "HEAD~1", "--rendered"],
    &["plan", "--offline", "--observed", "none"],
    &["status"],
    &["nodes", "--clean-steps"],
    &["etcd"],
];

/// Seconds of processor time and KiB of memory that a command has.
const LIMITS: &str = "ulimit -t 60; ulimit -v 6291456; exec \"$@\"";

/// What no output may hold.
const MARK: &str = "hunter2";

/// What the names of files begin with that are not to be opened.
#[cfg(target_os = "linux")]
const FORBIDDEN: &str = "pipelines-";

/// What every process of a system opens.
#[cfg(target_os = "linux")]
const SYSTEM: [&str; 12] = [
    "/dev/null",
    "/dev/urandom",
    "/etc/ld.so.cache",
    "/etc/gitconfig",
    "/etc/localtime",
    "/lib/",
    "/lib64/",
    "/proc/",
    "/sys/devices/system/",
    "/sys/fs/cgroup/",
    "/sys/kernel/mm/",
    "/usr/",
];

/// What git opens beside that.
#[cfg(target_os = "linux")]
const GIT: [&str; 3] = ["/etc/group", "/etc/nsswitch.conf", "/etc/passwd"];

/// A site with a credential of the pipeline in its checkout, and one beside it.
fn pipeline() -> Fixture {
    let fixture = Fixture::of(Checkout::new(), "edge");
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("site-examples/edge");
    copy_folder(&example, fixture.checkout.path());
    fixture.checkout.commit("The site");
    let exclude = fixture.checkout.path().join(".git/info/exclude");
    std::fs::write(exclude, "*pipelines-*\n").unwrap();
    fixture
        .checkout
        .write("pipelines-token", "token: hunter2-untracked\n");
    let beside = fixture.checkout.outside().join("pipelines-beside");
    std::fs::write(beside, "token: hunter2-beside\n").unwrap();
    fixture
}

/// Runs what a pipeline runs on what somebody proposes.
fn attempt(trick: impl FnOnce(&Fixture)) {
    let fixture = pipeline();
    trick(&fixture);
    fixture.checkout.commit("A pull request");
    let every = every(2, COMMANDS.len() - 1);
    let first = skipped::test().bytes().map(usize::from).sum::<usize>();
    let is_tried = |at: usize| at == 0 || (first + at).is_multiple_of(every);
    for (_, command) in COMMANDS.iter().enumerate().filter(|(at, _)| is_tried(*at)) {
        let (ended, trace) = run(&fixture, command);
        let what = format!("{command:?}\n{}\n{}", ended.stdout, ended.stderr);
        assert!(
            [0, 1, 4, 64].contains(&ended.code),
            "{}: {what}",
            ended.code
        );
        assert!(!what.contains("panicked"), "{what}");
        assert!(ended.stdout.len() < 8 << 20 && ended.stderr.len() < 1 << 20);
        harmless(&ended.stdout);
        harmless(&ended.stderr);
        if let Some(trace) = trace {
            let strange = strange(&fixture, &trace);
            assert!(strange.is_empty(), "{command:?}: {strange:#?}");
        }
    }
    let ran = fixture.checkout.outside().join("ran");
    assert!(!ran.exists(), "a program of the repository was run");
}

/// Whether a text holds nothing that drives a terminal or a pipeline, misleads a reader or is secret.
#[track_caller]
fn harmless(text: &str) {
    assert!(!text.contains(MARK), "{text}");
    for line in text.lines() {
        let hidden = line.chars().find(|each| trueup::document::is_hidden(*each));
        assert_eq!(hidden, None, "{line:?}");
        assert!(!trueup::document::has_command_mark(line), "{line}");
        assert_eq!(trueup::document::leading_command(line), None, "{line}");
    }
}

/// Runs a command under the limits, and under `strace` if that works: what it did then.
fn run(fixture: &Fixture, arguments: &[&str]) -> (Ended, Option<String>) {
    let program = fixture.command(arguments);
    let trace = fixture.checkout.outside().join("trace");
    let mut shell = Command::new("sh");
    shell.args(["-c", LIMITS, "sh"]);
    let watched = strace_works();
    if watched {
        shell
            .args(["strace", "--seccomp-bpf", "-f", "-y", "-o"])
            .arg(&trace);
        shell.args([
            "-e",
            "trace=open,openat,openat2,creat,execve,execveat,connect",
        ]);
    }
    shell.arg(program.get_program()).args(arguments);
    shell.current_dir(fixture.checkout.path()).env_clear();
    for (name, value) in program.get_envs() {
        if let Some(value) = value {
            shell.env(name, value);
        }
    }
    shell.env("HUNTER", "hunter2-environment");
    let output = shell.stdin(Stdio::null()).output().unwrap();
    let ended = Ended {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    };
    (
        ended,
        watched.then(|| std::fs::read_to_string(trace).unwrap()),
    )
}

/// Whether processes can be watched here; said loudly if they cannot.
fn strace_works() -> bool {
    static WORKS: OnceLock<bool> = OnceLock::new();
    *WORKS.get_or_init(try_strace)
}

fn try_strace() -> bool {
    let mut command = Command::new("strace");
    let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
    let works = quiet
        .args(["--seccomp-bpf", "-f", "-e", "trace=open", "true"])
        .status();
    let works = cfg!(target_os = "linux") && works.is_ok_and(|status| status.success());
    if !works {
        skipped("strace is not there or may not watch processes: opens are not looked at");
    }
    works
}

/// What a command did that it must not: lines of the trace.
#[cfg(target_os = "linux")]
fn strange(fixture: &Fixture, trace: &str) -> Vec<String> {
    let is_git = |path: &str| {
        let name = path.rsplit('/').next().unwrap_or_default();
        name == "git" || name.starts_with("git-")
    };
    let outside = fixture.checkout.outside().to_str().unwrap();
    let own = [
        format!("{}/", fixture.checkout.path().display()),
        format!("{outside}/.gitconfig"),
        format!("{outside}/.config/git/"),
        format!("{outside}/.config/trueup/"),
    ];
    let mut programs: BTreeMap<&str, bool> = BTreeMap::new();
    let mut strange = Vec::new();
    for line in trace.lines() {
        let (process, call) = line.split_once(' ').unwrap_or((line, ""));
        let call = call.trim_start();
        if let Some(path) = call.strip_prefix("execve(\"") {
            let path = path.split('"').next().unwrap_or_default();
            programs.insert(process, is_git(path));
            if !is_git(path) && !path.ends_with("/trueup") {
                strange.push(line.to_owned());
            }
        } else if call.starts_with("connect(") {
            strange.push(line.to_owned());
        } else if let Some(path) = opened(call) {
            let is_allowed = path == fixture.checkout.path().to_str().unwrap()
                || path == "/"
                || own.iter().any(|own| path.starts_with(own.as_str()))
                || SYSTEM.iter().any(|system| path.starts_with(system))
                || (programs.get(process) == Some(&true) && GIT.contains(&path));
            if !is_allowed || path.contains(FORBIDDEN) {
                strange.push(line.to_owned());
            }
        }
    }
    assert!(!programs.is_empty(), "nothing was watched: {trace}");
    strange
}

#[cfg(not(target_os = "linux"))]
fn strange(_: &Fixture, _: &str) -> Vec<String> {
    Vec::new()
}

/// Where a call led that opened something, links resolved.
#[cfg(target_os = "linux")]
fn opened(call: &str) -> Option<&str> {
    let is_open = ["open(", "openat(", "openat2(", "creat("]
        .iter()
        .any(|name| call.starts_with(name))
        || (call.starts_with("<... open") && call.contains(" resumed>"));
    let (_, result) = call.rsplit_once(" = ").filter(|_| is_open)?;
    let (number, path) = result.split_once('<')?;
    number.parse::<u32>().ok()?;
    path.strip_suffix('>')
}

macro_rules! tricks {
    ($($name:ident: $trick:expr;)*) => {
        $(#[test]
        fn $name() {
            attempt($trick);
        })*

        #[test]
        fn there_are_forty_tricks_at_least() {
            assert!([$(stringify!($name)),*].len() >= 40);
        }
    };
}

/// A document of a kind of its own, with this data.
fn document(data: &str) -> String {
    format!("---\nschema: example/Kind/v1\nmetadata: {{name: hostile}}\ndata:\n{data}\n")
}

/// A DataSchema of that kind and a document of it.
fn schema(definition: &str, data: &str) -> String {
    format!(
        "---\nschema: deckhand/DataSchema/v1\nmetadata: {{schema: metadata/Control/v1, name: example/Kind/v1}}\n\
         data: {definition}\n{}",
        document(data)
    )
}

fn backends(settings: &str) -> String {
    format!("---\nschema: trueup/Backends/v1\nmetadata: {{name: backends}}\ndata:\n{settings}\n")
}

/// Backends whose password is had in this way.
fn password(reference: &str) -> String {
    backends(&format!(
        "  hardware: {{kind: redfish, redfish: {{port: 1, credentials: {{username: admin, password: {reference}}}}}}}"
    ))
}

/// A document that writes a value into another, with a pattern or not.
fn substituting(name: &str, source: &str, destinations: &str, data: &str) -> String {
    format!(
        "---\nschema: example/Kind/v1\nmetadata:\n  name: {name}\n  schema: metadata/Document/v1\n  \
         storagePolicy: cleartext\n  layeringDefinition: {{layer: site, abstract: false}}\n  substitutions:\n  \
         - src: {{schema: example/Kind/v1, name: {source}, path: .}}\n    dest: {destinations}\n{data}\n"
    )
}

/// A large abstract document, and children that merge a little into it.
fn large_parent(keys: usize, children: usize) -> String {
    let layered = |name: &str, definition: &str, data: &str| {
        format!(
            "---\nschema: example/Kind/v1\nmetadata: {{schema: metadata/Document/v1, name: {name}, labels: {{is: {name}}}, \
             storagePolicy: cleartext, layeringDefinition: {{{definition}}}}}\ndata: {{{data}}}\n"
        )
    };
    let large: String = (0..keys).map(|at| format!("k{at}: {{a: 1}}, ")).collect();
    let child = |at: usize| {
        let definition = "layer: site, abstract: false, parentSelector: {is: parent}, actions: [{method: merge, path: .}]";
        layered(&format!("c{at}"), definition, &format!("z: {at}"))
    };
    let children: String = (0..children).map(child).collect();
    format!(
        "---\nschema: deckhand/LayeringPolicy/v1\nmetadata: {{schema: metadata/Control/v1, name: p}}\ndata: {{layerOrder: [global, site]}}\n{}{children}",
        layered("parent", "layer: global, abstract: true", &large)
    )
}

/// A list on the same line as a long text.
fn long_line(items: usize, factor: usize) -> String {
    let items: String = (0..items)
        .map(|at| format!("x{}, ", at * factor % items))
        .collect();
    document(&format!(
        "  {{text: {}, list: [{items}]}}",
        "t".repeat(6 << 20)
    ))
}

/// What is too much for a site is called by its name, beside the place that it is about.
#[test]
fn what_is_too_much_for_a_whole_site_is_refused_by_name() {
    let aliases = document(&format!(
        "  a: &a [{}]\n  b: [{}]",
        "x, ".repeat(1_000),
        "*a, ".repeat(990)
    ));
    let layered = large_parent(20_000, 2_000);
    for (code, count, content) in [
        ("yaml-site-too-large", 24, &aliases),
        ("render-too-large", 1, &layered),
    ] {
        let fixture = pipeline();
        for at in 0..count {
            let name = format!("hostile{at}");
            fixture
                .checkout
                .write(&format!("{name}.yaml"), content.replace("hostile", &name));
        }
        fixture.checkout.commit("A pull request");
        let (ended, _) = run(&fixture, &["validate"]);
        assert_eq!(ended.code, 1, "{code}: {}", ended.stderr);
        assert!(
            ended.stdout.contains(&format!("[{code}]")),
            "{code}: {}",
            ended.stdout
        );
    }
}

fn doubling(length: usize, combine: &str) -> String {
    let mut text = String::new();
    for at in 1..=length {
        let next = at - 1;
        write!(
            text,
            "d{at}: {{{combine}: [{{$ref: '#/definitions/d{next}'}}, {{$ref: '#/definitions/d{next}'}}]}}, "
        )
        .unwrap();
    }
    format!("{{$ref: '#/definitions/d{length}', definitions: {{{text}d0: {{type: string}}}}}}")
}

const WORKFLOW: &str = "##[set-output name=x]hostile ##vso[task.setvariable variable=x]y";

tricks! {
    a_link_out_of_the_repository: |fixture| fixture.checkout.link("x.yaml", "../pipelines-beside");
    a_link_by_an_absolute_path: |fixture| {
        let beside = fixture.checkout.outside().join("pipelines-beside");
        fixture.checkout.link("x.yaml", beside.to_str().unwrap());
    };
    a_link_to_a_file_that_is_not_tracked: |fixture| fixture.checkout.link("x.yaml", "pipelines-token");
    a_link_to_a_folder_out_of_the_repository: |fixture| fixture.checkout.link("folder", "..");
    a_link_to_a_folder_with_files_that_are_not_tracked: |fixture| {
        fixture.checkout.write(".build/pipelines-a.yaml", "a: [hunter2\n");
        fixture.checkout.link("folder", ".build");
    };
    a_chain_of_links_out_of_the_repository: |fixture| {
        fixture.checkout.link("a.yaml", "b.yaml");
        fixture.checkout.link("b.yaml", "c/../../pipelines-beside");
        fixture.checkout.write("c/x", "");
    };
    a_link_into_gits_own_folder: |fixture| fixture.checkout.link("x.yaml", ".git/config");
    a_link_into_proc: |fixture| fixture.checkout.link("x.yaml", "/proc/self/environ");
    a_link_to_a_device_without_end: |fixture| fixture.checkout.link("x.yaml", "/dev/zero");
    links_in_a_circle: |fixture| {
        fixture.checkout.link("a.yaml", "b.yaml");
        fixture.checkout.link("b.yaml", "a.yaml");
        fixture.checkout.link("folder/again", "..");
    };
    links_that_make_a_tree_of_many_paths: |fixture| {
        for at in 0..18 {
            fixture.checkout.write(&format!("l{at}/x.yaml"), "{}\n");
            fixture.checkout.link(&format!("l{at}/a"), &format!("../l{}", at + 1));
            fixture.checkout.link(&format!("l{at}/b"), &format!("../l{}", at + 1));
        }
    };
    a_definition_that_is_a_device: |fixture| {
        std::fs::remove_file(fixture.checkout.path().join("site-definition.yaml")).unwrap();
        fixture.checkout.link("site-definition.yaml", "/dev/zero");
    };
    a_definition_that_is_not_tracked: |fixture| {
        std::fs::remove_file(fixture.checkout.path().join("site-definition.yaml")).unwrap();
        fixture.checkout.link("site-definition.yaml", "pipelines-token");
    };
    a_pipe_that_nobody_writes_into: |fixture| {
        let pipe = fixture.checkout.path().join("x.yaml");
        assert!(Command::new("mkfifo").arg(pipe).status().unwrap().success());
    };
    a_file_that_is_too_large: |fixture| fixture.checkout.write("x.yaml", vec![b'a'; 20 << 20]);
    a_definition_that_is_too_large: |fixture| {
        fixture.checkout.write("site-definition.yaml", vec![b'#'; 20 << 20]);
    };
    many_small_files: |fixture| {
        for at in 0..3_000 {
            fixture.checkout.write(&format!("many/{at}.yaml"), "");
        }
    };
    aliases_that_multiply: |fixture| {
        let mut text = "  a: &a [x, x, x, x, x, x, x, x, x]\n".to_owned();
        for (before, name) in ('a'..'t').zip('b'..) {
            let nine = vec![format!("*{before}"); 9].join(", ");
            writeln!(text, "  {name}: &{name} [{nine}]").unwrap();
        }
        fixture.checkout.write("x.yaml", document(&text));
    };
    lists_that_nest_deep: |fixture| {
        let nested = format!("  a: {}x{}", "[".repeat(100_000), "]".repeat(100_000));
        fixture.checkout.write("x.yaml", document(&nested));
    };
    many_documents_in_a_file: |fixture| fixture.checkout.write("x.yaml", "--- 1\n".repeat(200_000));
    bytes_that_are_no_text: |fixture| {
        fixture.checkout.write("x.yaml", b"a: \xff\xfe\x00\x80\n");
        fixture.checkout.write("y.yaml", b"\xfe\xffa\0\xd8");
    };
    a_schema_that_doubles_by_any_of: |fixture| {
        fixture.checkout.write("x.yaml", schema(&doubling(40, "anyOf"), "  a: 1"));
    };
    a_schema_that_doubles_by_all_of: |fixture| {
        fixture.checkout.write("x.yaml", schema(&doubling(60, "allOf"), "  a: 1"));
    };
    a_schema_that_doubles_below_each_value: |fixture| {
        let twice = "{anyOf: [{properties: {a: {$ref: '#'}}, required: [b]}, {properties: {a: {$ref: '#'}}, required: [c]}]}";
        let nested = format!("  a: {}1{}", "{a: ".repeat(80), "}".repeat(80));
        fixture.checkout.write("x.yaml", schema(twice, &nested));
    };
    a_schema_without_an_end: |fixture| {
        fixture.checkout.write("x.yaml", schema("{anyOf: [{$ref: '#'}, {not: {$ref: '#'}}]}", "  a: 1"));
    };
    a_schema_of_a_long_chain: |fixture| {
        let chain: String = (1..=9_000)
            .map(|at| format!("d{at}: {{$ref: '#/definitions/d{}'}}, ", at - 1))
            .collect();
        let chain = format!("{{$ref: '#/definitions/d9000', definitions: {{{chain}d0: {{}}}}}}");
        fixture.checkout.write("x.yaml", schema(&chain, "  a: 1"));
    };
    a_schema_that_refers_to_a_file: |fixture| {
        let beside = fixture.checkout.outside().join("pipelines-beside");
        let reference = format!("{{$ref: 'file://{}'}}", beside.display());
        fixture.checkout.write("x.yaml", schema(&reference, "  a: 1"));
    };
    a_schema_that_refers_to_a_server: |fixture| {
        fixture.checkout.write("x.yaml", schema("{$ref: 'http://127.0.0.1:9/schema.json'}", "  a: 1"));
    };
    a_schema_with_an_address_of_its_own: |fixture| {
        fixture.checkout.write(
            "x.yaml",
            schema("{id: 'http://127.0.0.1:9/a.json', properties: {a: {$ref: 'b.json'}}}", "  a: 1"),
        );
    };
    patterns_that_go_back_for_ever: |fixture| {
        let text = format!("  a: {}b", "a".repeat(40));
        let patterns = vec!["{pattern: '^(a+)+\\1$'}"; 50].join(", ");
        fixture.checkout.write("x.yaml", schema(&format!("{{properties: {{a: {{anyOf: [{patterns}]}}}}}}"), &text));
    };
    a_pattern_that_is_slow_on_a_long_text: |fixture| {
        let text = format!("  a: {}", "ab".repeat(800_000));
        fixture.checkout.write("x.yaml", schema("{properties: {a: {pattern: '^[ab]*a[ab]{6000}c'}}}", &text));
    };
    patterns_for_keys_that_go_back_for_ever: |fixture| {
        let keys: String = (0..8_000).map(|at| format!("  {}b{at}: 1\n", "a".repeat(40))).collect();
        let patterns: String = (0..50).map(|at| format!("'^(a|aa)+\\1{at}$': {{}}, ")).collect();
        fixture.checkout.write("x.yaml", schema(&format!("{{patternProperties: {{{patterns}}}}}"), &keys));
    };
    a_substitution_with_a_pattern_that_is_slow_on_a_long_text: |fixture| {
        let source = document("  v").replace("hostile", "s0");
        let destination = "{path: .x, pattern: '[ab]*a[ab]{6000}c'}";
        let data = format!("data: {{x: {}}}", "ab".repeat(800_000));
        fixture.checkout.write("x.yaml", source + &substituting("s1", "s0", destination, &data));
    };
    patterns_that_are_large_when_compiled: |fixture| {
        let many: String = (0..200).map(|at| format!("a{at}: {{pattern: '^\\pL{{900}}{at}'}}, ")).collect();
        fixture.checkout.write("x.yaml", schema(&format!("{{properties: {{{many}}}}}"), "  a1: x"));
    };
    substitutions_that_multiply: |fixture| {
        let mut text = document("  a: [x, x, x, x, x, x, x, x]").replace("hostile", "s0");
        for at in 1..30 {
            let destinations = "[{path: .a}, {path: .b}, {path: .c}, {path: .d}]";
            text += &substituting(&format!("s{at}"), &format!("s{}", at - 1), destinations, "data: {}");
        }
        fixture.checkout.write("x.yaml", text);
    };
    children_of_a_large_parent: |fixture| fixture.checkout.write("x.yaml", large_parent(20_000, 2_000));
    a_long_list_in_another_order: |fixture| {
        fixture.checkout.write("x.yaml", long_line(60_000, 1));
        fixture.checkout.commit("A long list");
        fixture.checkout.write("x.yaml", long_line(60_000, 7_919));
    };
    substitutions_in_a_circle: |fixture| {
        let one = substituting("a", "b", "{path: .x}", "data: {}");
        fixture.checkout.write("x.yaml", one + &substituting("b", "a", "{path: .x}", "data: {}"));
    };
    a_substitution_with_a_pattern_that_goes_back: |fixture| {
        let text = document(&format!("  {}", "a".repeat(200))).replace("hostile", "s0");
        let destination = "{path: .x, pattern: '(a+)+$'}";
        let data = format!("data: {{x: {}b}}", "a".repeat(5_000));
        fixture.checkout.write("x.yaml", text + &substituting("s1", "s0", destination, &data));
    };
    a_program_for_a_password: |fixture| {
        let ran = fixture.checkout.outside().join("ran");
        let program = format!("{{exec: [sh, -c, 'touch {}']}}", ran.display());
        fixture.checkout.write("backends.yaml", password(&program));
    };
    a_variable_for_a_password: |fixture| {
        fixture.checkout.write("backends.yaml", password("{env: HUNTER}"));
    };
    a_file_for_a_password: |fixture| {
        fixture.checkout.write("backends.yaml", password("{file: ../pipelines-beside}"));
    };
    a_kubeconfig_of_the_repository_with_a_program: |fixture| {
        let ran = fixture.checkout.outside().join("ran");
        fixture.checkout.write(
            "kubeconfig",
            format!(
                "apiVersion: v1\nkind: Config\nclusters: [{{name: c, cluster: {{server: 'https://127.0.0.1:9'}}}}]\n\
                 users: [{{name: u, user: {{exec: {{apiVersion: client.authentication.k8s.io/v1, command: touch, args: ['{}']}}}}}}]\n\
                 contexts: [{{name: x, context: {{cluster: c, user: u}}}}]\ncurrent-context: x\n",
                ran.display()
            ),
        );
        fixture.checkout.write(
            "backends.yaml",
            backends("  hardware: {kind: metal3, metal3: {cluster: management}}\n  clusters:\n    - {name: management, kubeconfig: {file: kubeconfig}}"),
        );
    };
    a_controller_of_the_authors_choice: |fixture| {
        fixture.edit("profiles.yaml", "  primary_network: oam\n", "  primary_network: oam\n  oob: {type: redfish, network: oam, address: 127.0.0.1, account: admin}\n");
        fixture.checkout.write("backends.yaml", password("{env: HUNTER}"));
    };
    attributes_with_filters_of_git: |fixture| {
        fixture.checkout.write(".gitattributes", "*.yaml filter=evil diff=evil textconv=evil\n*.txt working-tree-encoding=UTF-16\n* merge=evil\n");
        fixture.checkout.write(".gitconfig", "[filter \"evil\"]\n\tsmudge = touch ran\n\tclean = touch ran\n[diff \"evil\"]\n\ttextconv = touch ran\n");
        // As a clone that has them would: what git runs, trueup does not.
        for key in ["diff.evil.textconv", "diff.external", "merge.evil.driver"] {
            fixture.checkout.git(&["config", key, "touch ../ran #"]);
        }
    };
    modules_of_git: |fixture| {
        fixture.checkout.write(
            ".gitmodules",
            "[submodule \"x\"]\n\tpath = module\n\turl = ext::touch ../ran\n\tupdate = !touch ../ran\n",
        );
        fixture.checkout.write("module/.git", "gitdir: ../../pipelines-beside\n");
        fixture.checkout.write("module/x.yaml", "a: 1\n");
        fixture.checkout.git(&["config", "protocol.ext.allow", "always"]);
        std::fs::write(fixture.checkout.path().join(".git/info/exclude"), "module\n*pipelines-*\n").unwrap();
    };
    hooks_in_the_tree: |fixture| {
        for hook in ["hooks/pre-commit", ".githooks/post-checkout", ".husky/post-merge"] {
            fixture.checkout.write(hook, "#!/bin/sh\ntouch ../ran\n");
        }
    };
    a_repository_inside_the_repository: |fixture| {
        fixture.checkout.write("inner/HEAD", "ref: refs/heads/main\n");
        fixture.checkout.write("inner/config", "[core]\n\tfsmonitor = touch ../ran\n\tworktree = ..\n");
        fixture.checkout.write("inner/objects/x", "");
        fixture.checkout.write("inner/refs/x", "");
    };
    names_of_files_that_drive_a_terminal: |fixture| {
        for name in ["\u{1b}[2J.yaml", "a\n::error::b.yaml", "\u{202e}lmay.yaml", "##[set-output name=x]y.yaml", "-rf.yaml", "a\u{ad}\u{3164}b.yaml"] {
            fixture.checkout.write(name, "a: [1\n");
        }
    };
    names_of_files_that_are_no_text: |fixture| {
        use std::os::unix::ffi::OsStrExt;
        let name = std::ffi::OsStr::from_bytes(b"\xff\x1b[2J.yaml");
        std::fs::write(fixture.checkout.path().join(name), "a: [1\n").unwrap();
    };
    characters_that_cannot_be_seen: |fixture| {
        let hidden = "\\u00ad\\u3164\\u115f\\uffa0\\u2800\\ufe0f\\u200b\\u202e\\U000E0041\\x1b[2J";
        fixture.checkout.write("x.yaml", document(&format!("  \"k{hidden}\": \"v{hidden}\"\n  text: \"a\\n{hidden}\\n\"")));
        fixture.edit("nodes.yaml", "metadata: {name: edge-2}", &format!("metadata: {{name: \"edge-2{hidden}\"}}"));
    };
    commands_of_a_workflow_in_values: |fixture| {
        fixture.checkout.write(
            "x.yaml",
            document(&format!(
                "  value: '{WORKFLOW}'\n  '{WORKFLOW}': key\n  ::error::x: key\n  block: |\n    a\n    ::set-output name=x::y\n    {WORKFLOW}\n  \
                 folded: >\n    ::add-mask::x\n\n    ::stop-commands::y\n  list: ['::error::x', '::warning::y']"
            )),
        );
    };
    commands_of_a_workflow_in_names: |fixture| {
        fixture.edit("nodes.yaml", "metadata: {name: edge-2}", &format!("metadata: {{name: '{WORKFLOW}'}}"));
        fixture.edit("nodes.yaml", "metadata: {name: edge-3}", "metadata: {name: '::set-output name=x::y'}");
        fixture.edit("strategy.yaml", "name: workers", &format!("name: '::error::{WORKFLOW}'"));
    };
    commands_of_a_workflow_in_errors: |fixture| {
        fixture.edit("profiles.yaml", "  hardware_profile: small-server\n", &format!("  hardware_profile: '{WORKFLOW}'\n"));
        fixture.edit("profiles.yaml", "  primary_network: oam\n", "  primary_network: '::error::x'\n");
        fixture.checkout.write("x.yaml", format!("'{WORKFLOW}': [1\n::error::a: b\n"));
    };
    commands_of_a_workflow_in_labels_and_images: |fixture| {
        fixture.edit("profiles.yaml", "edge.example.org/role: worker", &format!("edge.example.org/role: '{WORKFLOW}', '::error::x': '::error::y'"));
        fixture.edit("profiles.yaml", "image: ubuntu-24.04", &format!("image: '{WORKFLOW}'"));
        fixture.edit("nodes.yaml", "address: 10.40.0.12}", "address: '::error::x'}");
    };
    commands_of_a_workflow_in_the_message_of_a_commit: |fixture| {
        fixture.checkout.write("x.yaml", document("  a: 1"));
        fixture.checkout.commit("::error::x\n##[set-output name=x]y");
    };
    a_name_of_a_site_that_is_a_path: |fixture| {
        fixture.edit("site-definition.yaml", "metadata: {name: edge}", "metadata: {name: '../../../elsewhere'}");
    };
    a_name_of_a_site_that_is_a_flag: |fixture| {
        fixture.edit("site-definition.yaml", "metadata: {name: edge}", "metadata: {name: '--upload-pack=touch ../ran'}");
    };
    a_type_of_a_site_that_is_a_path: |fixture| {
        fixture.checkout.write("site/a/site-definition.yaml", "---\nschema: pegleg/SiteDefinition/v1\nmetadata: {name: a}\ndata: {site_type: '../../..'}\n");
        fixture.checkout.write("site/../global/x.yaml", "a: 1\n");
    };
    refs_that_look_like_flags: |fixture| {
        let id = fixture.checkout.git(&["rev-parse", "HEAD"]);
        for name in ["refs/heads/--exec=touch", "refs/tags/-x", "refs/tags/HEAD~1", "refs/heads/refs/heads/main"] {
            let path = fixture.checkout.path().join(".git").join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, format!("{id}\n")).unwrap();
        }
    };
    records_that_are_not_trueups: |fixture| {
        let blob = fixture.checkout.git(&["hash-object", "-w", "site-definition.yaml"]);
        fixture.checkout.git(&["update-ref", "refs/trueup/edge/lock", &blob]);
        fixture.checkout.git(&["update-ref", "refs/trueup/edge/state", "HEAD"]);
    };
    a_literal_password_beside_an_error: |fixture| {
        fixture.checkout.write("backends.yaml", password("hunter2"));
    };
    a_literal_credential_of_a_controller: |fixture| {
        fixture.edit("profiles.yaml", "  primary_network: oam\n", "  primary_network: none\n  oob: {type: redfish, network: none, account: admin, credential: hunter2}\n");
    };
    a_secret_in_a_label: |fixture| {
        fixture.checkout.write(
            "x.yaml",
            "---\nschema: deckhand/Passphrase/v1\nmetadata:\n  name: p\n  schema: metadata/Document/v1\n  \
             storagePolicy: encrypted\n  layeringDefinition: {layer: site, abstract: false}\ndata: hunter2\n",
        );
        fixture.edit(
            "profiles.yaml",
            "metadata: {name: worker}\n",
            "metadata:\n  name: worker\n  schema: metadata/Document/v1\n  storagePolicy: cleartext\n  layeringDefinition: {layer: site, abstract: false}\n  \
             substitutions:\n    - {src: {schema: deckhand/Passphrase/v1, name: p, path: .}, dest: {path: .metadata.owner_data.token}}\n",
        );
    };
    a_network_with_millions_of_addresses: |fixture| {
        fixture.edit("networks.yaml", "cidr: 10.40.1.0/24", "cidr: '::/0'");
        fixture.edit("networks.yaml", "start: 10.40.1.11, end: 10.40.1.99", "start: '::', end: 'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'");
    };
    selectors_that_select_for_ever: |fixture| {
        let many: String = (0..2_000)
            .map(|at| format!("    - {{name: g{at}, critical: false, depends_on: [g{}], selectors: [{{node_tags: [worker]}}]}}\n", (at + 1) % 2_000))
            .collect();
        fixture.edit("strategy.yaml", "  groups:\n", &format!("  groups:\n{many}"));
    };
    keys_that_are_everything_but_texts: |fixture| {
        fixture.checkout.write("x.yaml", document("  ? [a, b]\n  : c\n  ? {d: e}\n  : f\n  ~: g\n  .nan: h\n  1e999: i\n  <<: [j]\n  <<: {k: *l}"));
    };
}
