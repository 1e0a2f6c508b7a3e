#include "app/launch/deepspeed_env.h"

#include <algorithm>
#include <cstdio>
#include <sstream>

#include "app/ranks/ranks.h"
#include "engine/core/environment.h"
#include "engine/core/error.h"
#include "engine/files/file.h"

namespace ft {
namespace {

constexpr std::size_t kLongest = 1 << 20;
constexpr const char* kUsual = ".deepspeed_env";

// Variables that ft launch itself sets for a rank.
constexpr const char* kOwn[] = {"RANK",        "LOCAL_RANK",  "WORLD_SIZE",   "LOCAL_WORLD_SIZE",
                                "MASTER_ADDR", "MASTER_PORT", kTokenVariable, kListenerVariable};

bool is_name(std::string_view text) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !text.empty() && letter(text[0]) &&
         std::all_of(text.begin(), text.end(), [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

std::string_view trimmed(std::string_view text) {
  const char* blanks = " \t\r";
  const std::size_t first = text.find_first_not_of(blanks);
  return first == text.npos ? "" : text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

}  // namespace

void parse_deepspeed_env(std::string_view text, const std::string& file, Variables& to) {
  std::istringstream lines{std::string(text)};
  int number = 0;
  for (std::string whole; std::getline(lines, whole);) {
    const std::string_view line = trimmed(whole);
    ++number;
    if (line.empty() || line[0] == '#') continue;
    const std::size_t equals = line.find('=');
    const std::string name(trimmed(line.substr(0, equals)));
    const auto refuse = [&](const std::string& what) {
      throw UserError(Exit::config, str(printable(file), ":", number, ": ", what));
    };
    if (equals == line.npos || !is_name(name)) refuse("not understood; a line is: NAME=VALUE");
    if (std::find(std::begin(kOwn), std::end(kOwn), name) != std::end(kOwn))
      refuse(name + " is set by ft launch for each rank; see ft launch --help for its options");
    std::erase_if(to, [&](const auto& v) { return v.first == name; });
    to.emplace_back(name, trimmed(line.substr(equals + 1)));
  }
}

Variables read_deepspeed_env() {
  const std::string named = variable("DS_ENV_FILE"), home = variable("HOME");
  Variables all;
  if (named.empty()) {
    if (const std::string file = join_path(home, kUsual); !home.empty() && path_exists(file))
      parse_deepspeed_env(read_file(file, kLongest, Exit::config), file, all);
    else if (path_exists(kUsual))
      std::fprintf(
          stderr,
          "ft launch: ./%s is not read, since a folder's file could make ranks load other code; to use "
          "it, move it to ~ or type DS_ENV_FILE=%s ft launch ...\n",
          kUsual, kUsual);
    return all;
  }
  const std::string file = path_exists(named) ? named : join_path(home, named);
  parse_deepspeed_env(read_file(file, kLongest, Exit::config), file, all);
  return all;
}

}  // namespace ft
