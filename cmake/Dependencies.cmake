# Everything comes from Debian 12 packages; nothing is downloaded.

find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)
find_package(SQLite3 REQUIRED)
add_library(sqlite INTERFACE)  # the imported target has another name in newer CMake
target_include_directories(sqlite SYSTEM INTERFACE ${SQLite3_INCLUDE_DIRS})
target_link_libraries(sqlite INTERFACE ${SQLite3_LIBRARIES})
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(CLI11 REQUIRED)

find_path(DNNL_INCLUDE_DIR dnnl.h REQUIRED)
find_library(DNNL_LIBRARY dnnl REQUIRED)
add_library(dnnl INTERFACE)
target_include_directories(dnnl SYSTEM INTERFACE ${DNNL_INCLUDE_DIR})
target_link_libraries(dnnl INTERFACE ${DNNL_LIBRARY} gomp)
