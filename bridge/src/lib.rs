//! Everything pome takes from Rust, behind one C header (src/bridge/pome_bridge.h). Every entry point catches panics,
//! checks its pointers, and reports a refusal as a code with a message; none of them keeps a borrowed pointer.

mod bpe;
mod bpe_files;
mod buffer;
mod gguf;
mod grammar;
mod hub;
mod pieces;
mod python;
mod splits;
mod status;
mod template;
mod tokenizer;
