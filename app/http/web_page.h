// A self-contained page for browsers: HTML with its own style and scripts.
#pragma once
#include <string>

#include "app/http/http.h"

namespace ft {

// Returns a page with headers that let it run only those of its scripts that are in `trusted`, which the
// program was built with, load nothing, and send requests only to its own server. Empty with status 304 if
// the browser has the same page already.
HttpReply page_reply(const HttpRequest&, const std::string& html, const std::string& trusted);

}  // namespace ft
