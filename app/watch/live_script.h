// The part of the live page that keeps it up to date: app/watch/page/live.html with the script beside it.
#pragma once

namespace ft {

extern const char* const kLiveScript;

}  // namespace ft
