install(TARGETS runner_bin RUNTIME DESTINATION bin)
install(DIRECTORY recipes/ DESTINATION share/runner/recipes)
install(FILES schema/runner.schema.json DESTINATION share/runner/schema)  # where the recipes look for it

install(DIRECTORY docs/ DESTINATION share/runner/docs)  # beside the recipes, to which the pages link

# install_output(PATH ARGUMENT...): installs what the program prints when it is called with the arguments.
function(install_output path)
  get_filename_component(folder ${path} DIRECTORY)
  install(CODE "
    set(share \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/share\")
    file(MAKE_DIRECTORY \"\${share}/${folder}\")
    execute_process(COMMAND \"$<TARGET_FILE:runner_bin>\" ${ARGN} OUTPUT_FILE \"\${share}/${path}\"
                    COMMAND_ERROR_IS_FATAL ANY)")
endfunction()

# Completion files go where each shell looks for them.
install_output(man/man1/runner.1 man)
install_output(bash-completion/completions/runner completion bash)
install_output(zsh/site-functions/_runner completion zsh)
install_output(fish/vendor_completions.d/runner.fish completion fish)
