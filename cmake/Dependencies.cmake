# All dependencies are Debian 12 packages; nothing is downloaded.

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

# Lua built as C++ throws its errors as exceptions, which unwind our frames.
find_path(LUA_INCLUDE_DIR lua.hpp PATH_SUFFIXES lua5.4 lua-5.4 lua54 REQUIRED)
find_library(LUA_LIBRARY NAMES lua5.4-c++ lua-5.4-c++ lua54-c++ lua++ REQUIRED)
add_library(lua INTERFACE)
target_include_directories(lua SYSTEM INTERFACE ${LUA_INCLUDE_DIR})
target_link_libraries(lua INTERFACE ${LUA_LIBRARY})

find_path(DNNL_INCLUDE_DIR dnnl.h REQUIRED)
find_library(DNNL_LIBRARY dnnl REQUIRED)
add_library(dnnl INTERFACE)
target_include_directories(dnnl SYSTEM INTERFACE ${DNNL_INCLUDE_DIR})
target_link_libraries(dnnl INTERFACE ${DNNL_LIBRARY} gomp)

find_path(UTF8PROC_INCLUDE_DIR utf8proc.h REQUIRED)
find_library(UTF8PROC_LIBRARY utf8proc REQUIRED)
add_library(utf8proc INTERFACE)
target_include_directories(utf8proc SYSTEM INTERFACE ${UTF8PROC_INCLUDE_DIR})
target_link_libraries(utf8proc INTERFACE ${UTF8PROC_LIBRARY})

find_package(PNG REQUIRED)
add_library(png INTERFACE)
target_include_directories(png SYSTEM INTERFACE ${PNG_INCLUDE_DIRS})
target_link_libraries(png INTERFACE ${PNG_LIBRARIES})

find_package(JPEG REQUIRED)
add_library(jpeg INTERFACE)
target_include_directories(jpeg SYSTEM INTERFACE ${JPEG_INCLUDE_DIRS})
target_link_libraries(jpeg INTERFACE ${JPEG_LIBRARIES})

# Optional: tokenizers of SentencePiece.
option(RUNNER_SENTENCEPIECE "use SentencePiece if it is installed" ON)
if(RUNNER_SENTENCEPIECE)
  find_path(SENTENCEPIECE_INCLUDE_DIR sentencepiece_processor.h)
  find_library(SENTENCEPIECE_LIBRARY sentencepiece)
endif()
add_library(sentencepiece INTERFACE)
if(RUNNER_SENTENCEPIECE AND SENTENCEPIECE_INCLUDE_DIR AND SENTENCEPIECE_LIBRARY)
  target_include_directories(sentencepiece SYSTEM INTERFACE ${SENTENCEPIECE_INCLUDE_DIR})
  target_link_libraries(sentencepiece INTERFACE ${SENTENCEPIECE_LIBRARY})
  target_compile_definitions(sentencepiece INTERFACE RUNNER_HAS_SENTENCEPIECE=1)
else()
  target_compile_definitions(sentencepiece INTERFACE RUNNER_HAS_SENTENCEPIECE=0)
endif()
