# Writes OUT: C++ that defines NAME, declared in HEADER, as the text of the file PAGE. Each {{FILE}} in it becomes the
# text of that file beside it.
get_filename_component(folder ${PAGE} DIRECTORY)
file(READ ${PAGE} text)
string(REGEX MATCHALL "{{[a-z_]+\\.[a-z]+}}" places "${text}")
foreach(place IN LISTS places)
  string(REGEX REPLACE "[{}]" "" name ${place})
  file(READ ${folder}/${name} part)
  string(REPLACE "${place}" "${part}" text "${text}")
endforeach()
file(WRITE ${OUT} "#include \"${HEADER}\"\nnamespace ft {\nconst char* const ${NAME} = R\"page(${text})page\";\n}  // namespace ft\n")
