// libcurl, loaded when a first connection is opened, so that ft starts without it and its many libraries.
#pragma once
#include <curl/curl.h>

#include <string>
#include <vector>

namespace ft::hub {

struct CurlLibrary {
  decltype(&curl_global_init) global_init;
  decltype(&curl_version_info) version_info;
  decltype(&curl_easy_init) easy_init;
  decltype(&curl_easy_cleanup) easy_cleanup;
  decltype(&curl_easy_reset) easy_reset;
  decltype(&curl_easy_setopt) easy_setopt;
  decltype(&curl_easy_perform) easy_perform;
  decltype(&curl_easy_strerror) easy_strerror;
  decltype(&curl_slist_append) slist_append;
  decltype(&curl_slist_free_all) slist_free_all;
  decltype(&curl_url) url;
  decltype(&curl_url_set) url_set;
  decltype(&curl_url_get) url_get;
  decltype(&curl_url_cleanup) url_cleanup;
  decltype(&curl_free) free;
  decltype(&curl_getdate) getdate;
};

// Loads and initialises the first of these libraries that is found. Throws UserError (hardware) if none is
// found, or it is too old.
CurlLibrary load_curl(const std::vector<std::string>& names);

// Returns this system's libcurl, loaded once. Throws like load_curl().
const CurlLibrary& curl();

}  // namespace ft::hub
