#include "app/launch/hostfile.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <sstream>

#include "engine/core/error.h"
#include "engine/files/file.h"
#include "engine/files/hash.h"

namespace ft {
namespace {

constexpr std::size_t kMostBytes = 1 << 20, kMostHosts = 4096;

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

int whole_number(std::string_view text, int low, int high) {  // -1: not a number from low to high
  int value = -1;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool ok = problem == std::errc() && end == text.data() + text.size() && value >= low && value <= high;
  return ok ? value : -1;
}

// Returns the text with all bytes that are not ASCII escaped: a name must not reverse the terminal's text
// direction.
std::string in_ascii(const std::string& text) {
  std::string out;
  for (const char c : printable(text, 80)) {
    const auto byte = static_cast<unsigned char>(c);
    out += byte < 128 ? std::string(1, c) : "\\x" + hexadecimal({&byte, 1});
  }
  return out;
}

[[noreturn]] void wrong(const std::string& what) { throw UserError(Exit::config, what); }

// Reads "slots=4" or "max_slots=8" (OpenMPI also writes max-slots). Returns 0 if the word does not begin with
// `key`.
int read_count(const std::string& word, std::string_view key, const std::string& where) {
  const std::string start = std::string(key) + "=";
  if (!word.starts_with(start)) return 0;
  const int n = whole_number(std::string_view(word).substr(start.size()), 1, kMostSlots);
  if (n < 0) wrong(str(where, in_ascii(word), ": a whole number from 1 to ", kMostSlots));
  return n;
}

struct Line {
  std::string host;
  int slots = 0, most = 0;  // 0: not given
};

Line read_host(std::istringstream& words, const std::string& where) {
  Line l;
  words >> l.host;
  if (!is_host(l.host))
    wrong(str(where, "\"", in_ascii(l.host),
              "\" is not a host name (letters, digits, dots, hyphens, underscores) or IP address\n  a user "
              "name or a port belongs in ~/.ssh/config"));
  for (std::string word; words >> word;) {
    if (const int n = read_count(word, "slots", where); n > 0)
      l.slots = n;
    else if (const int m =
                 std::max(read_count(word, "max_slots", where), read_count(word, "max-slots", where));
             m > 0)
      l.most = m;
    else
      wrong(str(where, "\"", in_ascii(word), "\" is not understood; a line is: HOST slots=NUMBER"));
  }
  if (l.most > 0 && l.slots > l.most) wrong(str(where, "slots is larger than max_slots"));
  return l;
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, at);) parts.push_back(part);
  return parts;
}

// A host and slots, as `option` names them: "node1:0,2". A text that equals a host's name is that host,
// because IPv6 addresses contain colons.
struct Named {
  std::size_t host;
  std::vector<int> slots;  // empty: all
};
Named find_named(const std::vector<Host>& hosts, const std::string& text, const std::string& option) {
  const auto find = [&](std::string_view name) {
    return std::find_if(hosts.begin(), hosts.end(), [&](const Host& h) { return h.name == name; });
  };
  auto at = find(text);
  const std::size_t colon = text.rfind(':');
  const bool whole = at != hosts.end() || colon == text.npos;
  if (!whole) at = find(text.substr(0, colon));
  if (at == hosts.end())
    wrong(str(option, ": there is no host ", in_ascii(text.substr(0, whole ? text.npos : colon)),
              " in the hostfile"));
  Named n{static_cast<std::size_t>(at - hosts.begin()), {}};
  if (whole) return n;
  for (const std::string& word : split(text.substr(colon + 1), ',')) {
    const int slot = whole_number(word, 0, kMostSlots);
    if (std::find(at->slots.begin(), at->slots.end(), slot) == at->slots.end())
      wrong(str(option, ": ", at->name, " has slots ", at->slots.front(), " to ", at->slots.back(),
                " and no ", in_ascii(word)));
    if (std::find(n.slots.begin(), n.slots.end(), slot) == n.slots.end()) n.slots.push_back(slot);
  }
  if (n.slots.empty()) wrong(str(option, ": which slots of ", at->name, "? ", at->name, ":0,1"));
  std::sort(n.slots.begin(), n.slots.end());
  return n;
}

}  // namespace

std::vector<int> first_slots(int n) {
  std::vector<int> slots(static_cast<std::size_t>(n));
  std::iota(slots.begin(), slots.end(), 0);
  return slots;
}

bool is_host(std::string_view name) {
  if (name.empty() || name.size() > 253) return false;
  in6_addr number{};
  if (name.find(':') != name.npos) return inet_pton(AF_INET6, std::string(name).c_str(), &number) == 1;
  return is_letter_or_digit(name.front()) && is_letter_or_digit(name.back()) &&
         std::all_of(name.begin(), name.end(),
                     [](char c) { return is_letter_or_digit(c) || c == '.' || c == '-' || c == '_'; });
}

std::vector<Host> parse_hostfile(std::string_view text, const std::string& file) {
  std::vector<Host> hosts;
  std::istringstream in{std::string(text)};
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    const std::string where = str(file, ":", ++number, ": ");
    std::istringstream words(line.substr(0, line.find('#')));
    if ((words >> std::ws).eof()) continue;
    const Line l = read_host(words, where);
    const auto same =
        std::find_if(hosts.begin(), hosts.end(), [&](const Host& h) { return h.name == l.host; });
    if (same == hosts.end()) {
      hosts.push_back({l.host, first_slots(std::max(1, l.slots))});
    } else if (l.slots == 0 && !same->chosen) {
      same->slots = first_slots(static_cast<int>(same->slots.size()) + 1);
    } else {
      wrong(str(where, l.host, " is listed twice; list it once, with slots="));
    }
    if (l.slots > 0) hosts.back().chosen = true;  // here: the file gives the number of slots
    if (hosts.size() > kMostHosts) wrong(str(file, ": more than ", kMostHosts, " hosts"));
  }
  if (hosts.empty()) wrong(str(file, ": has no hosts; a line is: HOST slots=NUMBER"));
  for (Host& h : hosts) h.chosen = false;
  return hosts;
}

std::vector<Host> read_hostfile(const std::string& path) {
  return parse_hostfile(read_file(path, kMostBytes, Exit::config), path);
}

std::vector<Host> choose_hosts(std::vector<Host> hosts, const std::string& include,
                               const std::string& exclude) {
  if (!include.empty() && !exclude.empty()) wrong("--include and --exclude: give only one of them");
  if (include.empty() && exclude.empty()) return hosts;
  const bool keep = !include.empty();
  const std::string option = keep ? "--include" : "--exclude";
  std::vector<Host> left = hosts;
  if (keep)
    for (Host& h : left) h.slots.clear();
  for (const std::string& part : split(keep ? include : exclude, '@')) {
    const Named n = find_named(hosts, part, option);
    Host& h = left[n.host];
    if (n.slots.empty()) {
      h.slots = keep ? hosts[n.host].slots : std::vector<int>{};
      continue;
    }
    h.chosen = true;
    for (const int slot : n.slots) {
      std::erase(h.slots, slot);
      if (keep) h.slots.push_back(slot);
    }
    std::sort(h.slots.begin(), h.slots.end());
  }
  std::erase_if(left, [](const Host& h) { return h.slots.empty(); });
  if (left.empty()) wrong(str(option, ": no ranks are left"));
  return left;
}

}  // namespace ft
