# What is installed: `make install`, `make dist` and the Debian package that cpack makes.
include(GNUInstallDirs)

# What ft says about itself, for man, shells and editors. The program writes it, so it is built first.
set(made ${PROJECT_BINARY_DIR}/share)
add_custom_target(ft_share DEPENDS ft COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/share.sh $<TARGET_FILE:ft> ${made} VERBATIM)

# Component ft: what every way of installing it has.
install(TARGETS ft COMPONENT ft RUNTIME_DEPENDENCY_SET ft_needs)
install(FILES ${made}/ft-config.schema.json DESTINATION share/ft COMPONENT ft)
install(FILES ${made}/ft.1.gz DESTINATION share/man/man1 COMPONENT ft)
install(FILES ${made}/ft.bash DESTINATION share/bash-completion/completions RENAME ft COMPONENT ft)
install(FILES ${made}/ft.fish DESTINATION share/fish/vendor_completions.d COMPONENT ft)

# Component local: where zsh looks in /usr/local.
install(FILES ${made}/_ft DESTINATION share/zsh/site-functions COMPONENT local)

# Component bundle: every library that is not the C library's, found beside the program (make dist), in a folder that
# nobody else uses. RPATH and not RUNPATH, for these libraries look for each other too.
target_link_options(ft PRIVATE -Wl,--disable-new-dtags)
set_target_properties(ft PROPERTIES INSTALL_RPATH "$ORIGIN/../lib/ft" BUILD_WITH_INSTALL_RPATH ON)  # never an empty path
set(not_bundled "^(ld-linux-x86-64|lib(c|m|dl|rt|pthread|resolv))\\.so")
install(RUNTIME_DEPENDENCY_SET ft_needs PRE_EXCLUDE_REGEXES ${not_bundled}
        LIBRARY DESTINATION lib/ft COMPONENT bundle)
# libcurl, which ft loads when it opens a connection (app/hub/curl_library.cpp), and its own libraries.
find_file(LIBCURL libcurl.so.4 PATHS /usr/lib /usr/local/lib PATH_SUFFIXES ${CMAKE_LIBRARY_ARCHITECTURE} NO_DEFAULT_PATH)
install(CODE "
  file(GET_RUNTIME_DEPENDENCIES LIBRARIES \"${LIBCURL}\" RESOLVED_DEPENDENCIES_VAR needs PRE_EXCLUDE_REGEXES [[${not_bundled}]])
  file(INSTALL \"${LIBCURL}\" \${needs} DESTINATION \"\${CMAKE_INSTALL_PREFIX}/lib/ft\" FOLLOW_SYMLINK_CHAIN)"
  COMPONENT bundle)
install(FILES ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION . COMPONENT bundle)

# Component debian: the package's own places. It depends on Debian's libraries, whose versions dpkg-shlibdeps finds.
install(FILES ${made}/_ft DESTINATION share/zsh/vendor-completions COMPONENT debian)
install(FILES ${PROJECT_SOURCE_DIR}/app/copyright DESTINATION share/doc/ft COMPONENT debian)
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME ft)
set(CPACK_PACKAGE_CONTACT "The ft project <ft@example.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "fine-tunes language models: LoRA, QLoRA and full, without Python")
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR})
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL ft debian)
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "ca-certificates, libcurl4")  # for ft pull and ft push; found when they open a connection
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
include(CPack)
