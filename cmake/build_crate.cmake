# cargo build --release --locked, then a copy of the archive; called by src/bridge/CMakeLists.txt.
# Another checkout may share cargo's folder, so building and copying happen under one lock.
get_filename_component(target_dir ${BUILT}/../.. ABSOLUTE)
file(MAKE_DIRECTORY ${target_dir})
file(LOCK ${target_dir}/pome_bridge.lock GUARD PROCESS)
execute_process(
  COMMAND ${CARGO} build --release --locked --manifest-path ${CRATE}/Cargo.toml ${FLAGS}
  RESULT_VARIABLE result)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "cargo could not build the bridge. It needs Rust 1.88 or newer (cargo --version), and the "
                      "network the first time; without one, run `cargo vendor` or `cargo fetch` in bridge/ before.")
endif()
get_filename_component(archive_dir ${ARCHIVE} DIRECTORY)
file(MAKE_DIRECTORY ${archive_dir})
file(COPY_FILE ${BUILT} ${ARCHIVE} ONLY_IF_DIFFERENT)
file(TOUCH_NOCREATE ${ARCHIVE})
