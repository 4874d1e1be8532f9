install(TARGETS runner_bin RUNTIME DESTINATION bin)
install(DIRECTORY recipes/ DESTINATION share/runner/recipes)
