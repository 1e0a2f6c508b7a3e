# Writes OUT with the commit the sources are at; "" where there is no git or no repository. Run at every build.
execute_process(COMMAND git -C ${SOURCE} describe --always --dirty --abbrev=12 --exclude=*
                OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed)
  set(commit "")
endif()
set(text "#include \"app/version/version.h\"\nnamespace ft {\nconst char* const kVersion = \"${VERSION}\";\n")
string(APPEND text "const char* const kCommit = \"${commit}\";\n}  // namespace ft\n")
file(CONFIGURE OUTPUT ${OUT} CONTENT "${text}" @ONLY)
