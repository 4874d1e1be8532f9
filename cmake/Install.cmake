install(TARGETS runner_bin RUNTIME DESTINATION bin)
install(TARGETS runner_points LIBRARY DESTINATION lib/runner)
install(DIRECTORY recipes/ DESTINATION share/runner/recipes)
install(FILES schema/runner.schema.json DESTINATION share/runner/schema)  # where the recipes look for it

install(DIRECTORY docs/ DESTINATION share/doc/runner PATTERN decisions EXCLUDE)

# Manual page, and completion files in the folder of each shell.
foreach(page
    "man:man/man1/runner.1"
    "completion bash:bash-completion/completions/runner"
    "completion zsh:zsh/site-functions/_runner"
    "completion fish:fish/vendor_completions.d/runner.fish"
)
  string(REGEX MATCH "^(.*):(.*)$" page "${page}")
  set(arguments "${CMAKE_MATCH_1}")
  set(file "\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/share/${CMAKE_MATCH_2}")
  get_filename_component(folder "${CMAKE_MATCH_2}" DIRECTORY)
  install(CODE "file(MAKE_DIRECTORY \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/share/${folder}\")
    execute_process(COMMAND \"$<TARGET_FILE:runner_bin>\" ${arguments} OUTPUT_FILE \"${file}\" COMMAND_ERROR_IS_FATAL ANY)")
endforeach()
