#include "app/cli/command_line.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <new>

#include "app/cli/parser.h"
#include "app/cli/tree.h"

namespace ft {
namespace {

// Writes the message to stderr, line by line, with control characters made harmless.
int tell(Exit code, const std::string& what) {
  std::string text;
  for (std::size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
    end = what.find('\n', begin);
    text += printable(what.substr(begin, end == std::string::npos ? end : end - begin), 2000) + "\n";
  }
  std::cout.flush();
  std::cerr << text;
  return static_cast<int>(code);
}

}  // namespace

int run_command_line(const std::vector<std::string>& arguments) {
  constexpr Exit kOurs{1};  // a mistake of ft itself
  try {
    const Exit code = commands::Parser().run(arguments);
    if (!std::cout.flush()) return tell(Exit::storage, std::string("stdout: ") + std::strerror(errno));
    return static_cast<int>(code);
  } catch (const UserError& e) {
    return tell(e.code, e.what());
  } catch (const std::bad_alloc&) {
    return tell(Exit::memory, "not enough memory");
  } catch (const std::filesystem::filesystem_error& e) {
    return tell(Exit::storage, str(e.path1().string(), ": ", e.code().message()));
  } catch (const std::exception& e) {
    return tell(kOurs, str("internal error: ", e.what(),
                           "\nthis is a bug in ft; please report it with the command and the configuration"));
  }
}

std::vector<std::string> all_options() { return commands::options_below(commands::Parser().root()); }

}  // namespace ft
