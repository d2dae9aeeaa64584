//! Examples that need no device of the system's, run as they are.

use std::env;
use std::process::Command;

/// What each says, among other things.
const EXAMPLES: [(&str, &str); 5] = [
    ("caller_turned", "of virtual time"),
    ("own_module", "ciphered: 14 bytes"),
    ("custom_device", "100000 bytes there and back"),
    ("web", "200 OK: /three from 10.0.0.1:"),
    ("web_tls", "200 OK: /page in secret"),
];

#[test]
fn examples_run() {
    // Beside the tests of a crate its examples are built.
    let own = env::current_exe().expect("a program");
    let built = own.ancestors().nth(2).expect("a folder").join("examples");
    for (name, words) in EXAMPLES {
        let program = built.join(name);
        assert!(
            program.exists(),
            "cargo build -p braidnet --examples builds {}",
            program.display()
        );
        let output = Command::new(&program).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stdout);
        let failed = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {said}{failed}");
        assert!(said.contains(words), "{name}: {said}");
    }
}
