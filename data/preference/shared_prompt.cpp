#include "data/preference/shared_prompt.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "data/chat/rendered_chat.h"

namespace ft {
namespace {

template <class List>
std::size_t alike(const List& a, const List& b) {
  const std::size_t most = std::min(a.size(), b.size());
  std::size_t i = 0;
  while (i < most && a[i] == b[i]) ++i;
  return i;
}

template <class List>
List take(List& a, List& b, std::size_t n) {
  const auto end = [n](List& list) { return list.begin() + static_cast<std::ptrdiff_t>(n); };
  List prompt(a.begin(), end(a));
  a.erase(a.begin(), end(a));
  b.erase(b.begin(), end(b));
  return prompt;
}

bool continues(const std::string& s, std::size_t i) {  // not the first byte of a character
  return i < s.size() && (static_cast<unsigned char>(s[i]) & 0xC0) == 0x80;
}

}  // namespace

std::string take_shared_prompt(std::string& chosen, std::string& rejected) {
  std::size_t n = alike(chosen, rejected);
  const bool differ = n < std::min(chosen.size(), rejected.size());
  while (n > 0 && (continues(chosen, n) || continues(rejected, n))) --n;
  if (differ && n > 0 && chosen[n - 1] == ' ') --n;
  if (!differ && n > 0)
    for (--n; n > 0 && continues(chosen, n);) --n;
  return take(chosen, rejected, n);
}

std::vector<Json> take_shared_prompt(std::vector<Json>& chosen, std::vector<Json>& rejected) {
  std::size_t n = alike(chosen, rejected);
  if (n > 0 && n == std::min(chosen.size(), rejected.size())) --n;
  return take(chosen, rejected, n);
}

std::vector<Json> prompt_of_chats(const Json& prompt, const std::string& name, std::vector<Json>& chosen,
                                  std::vector<Json>& rejected, const Place& at) {
  if (!prompt.is_null() && !prompt.is_string()) return read_messages(prompt, name, at);
  std::vector<Json> shared = take_shared_prompt(chosen, rejected);
  if (shared.empty() && prompt.is_string()) shared.push_back({{"role", "user"}, {"content", prompt}});
  return shared;
}

}  // namespace ft
