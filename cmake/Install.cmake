install(TARGETS runner_bin RUNTIME DESTINATION bin)
install(DIRECTORY recipes/ DESTINATION share/runner/recipes)
install(FILES schema/runner.schema.json DESTINATION share/runner/schema)  # where the recipes look for it
