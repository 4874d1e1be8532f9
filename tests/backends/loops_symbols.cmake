# Fails if an object file defines a weak function: a copy of an inline function, compiled for one instruction set, that
# the linker could use for all (isa/loops.h). Variables: NM, OBJECTS (joined with ",").
string(REPLACE "," ";" OBJECTS "${OBJECTS}")
execute_process(COMMAND ${NM} ${OBJECTS} OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[0-9a-f]+ [WVu] [^\n]+" weak "${symbols}")
if(weak)
  message(FATAL_ERROR "weak symbols in files that are compiled for one instruction set: ${weak}")
endif()
