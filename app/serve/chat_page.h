// The chat page, one HTML file: app/serve/page/chat.html with the style and the scripts beside it.
#pragma once

namespace ft {

extern const char* const kChatPage;

}  // namespace ft
