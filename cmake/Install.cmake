install(TARGETS runner_bin RUNTIME DESTINATION bin)
install(TARGETS runner_points LIBRARY DESTINATION lib/runner)
install(DIRECTORY recipes/ DESTINATION share/runner/recipes)
install(FILES schema/runner.schema.json DESTINATION share/runner/schema)  # where the recipes look for it
