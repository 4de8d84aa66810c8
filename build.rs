//! A launch is several small processes of this binary, and each would relocate every table of pointers before its first
//! line: a millisecond of work, and most of the memory that a warden keeps for itself. Linked to a fixed address there is
//! nothing to relocate. What that gives up is a random address of the program itself; its libraries, stack and heap
//! keep theirs, and no code here is `unsafe`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let target = |key: &str| std::env::var(format!("CARGO_CFG_TARGET_{key}")).unwrap_or_default();
    if target("OS") == "linux" && target("ENV") == "gnu" {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}
