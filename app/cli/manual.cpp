#include "app/cli/manual.h"

#include <functional>

#include "app/version/version.h"

namespace ft::commands {
namespace {

// Returns text for roff: keeps hyphens, and no line begins like a request.
std::string roff(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n')) out += "\\&";
    if (c == '-' || c == '\\') out += '\\';
    out += c == '\\' ? "e" : std::string(1, c);
  }
  return out;
}

std::string option_text(const CLI::Option& option) {
  std::string names;
  for (const std::string& name : option.get_snames()) names += "-" + name + ", ";
  for (const std::string& name : option.get_lnames()) names += "--" + name + ", ";
  if (names.empty()) names = option.get_name() + ", ";
  names.resize(names.size() - 2);
  std::string type = option.get_items_expected_max() > 0 ? option.get_type_name() : "";
  if (type.starts_with("TEXT:")) type = type.substr(5);
  return ".TP\n\\fB" + roff(names) + "\\fR" + (type.empty() ? "" : " " + roff(type)) + "\n" +
         roff(option.get_description()) + "\n";
}

// Returns the examples, with their line breaks.
std::string examples_of(const CLI::App& app) {
  return app.get_footer().empty() ? "" : ".PP\n.nf\n" + roff(app.get_footer()) + "\n.fi\n";
}

constexpr const char* kExitStatus = R"(.SH EXIT STATUS
.TS
r l.
0	done
1	a mistake of ft
2	the configuration or the command line
3	a model, a tokenizer or a data file
4	a checkpoint that is missing or damaged
5	it would not fit into memory
6	writing failed
7	NaN or Inf
8	another rank went away
9	another rank does not answer
10	the hardware
11	authentication or version, or a check that failed
12	ranks hold different bits of what must be equal
75	stopped by a signal, with a checkpoint saved
.TE
)";

}  // namespace

std::string manual(const CLI::App& root) {
  std::string out =
      std::string("'\\\" t\n.TH FT 1 \"\" \"ft ") + kVersion + "\" \"User Commands\"\n" +
      ".SH NAME\nft \\- fine\\-tunes language models\n.SH SYNOPSIS\n\\fBft\\fR COMMAND [OPTIONS]\n" +
      ".SH DESCRIPTION\n" + roff(root.get_description()) + "\n" + examples_of(root) + ".SH OPTIONS\n";
  const auto options = [&](const CLI::App& app) {
    for (const CLI::Option* option : app.get_options()) out += option_text(*option);
  };
  options(root);
  out += ".SH COMMANDS\n";
  const std::function<void(const CLI::App&, const std::string&)> walk = [&](const CLI::App& app,
                                                                            const std::string& path) {
    for (const CLI::App* sub : app.get_subcommands({})) {
      const std::string name = path + " " + sub->get_name();
      if (sub->get_subcommands({}).empty()) {
        out += ".SS \"" + roff(name) + "\"\n" + roff(sub->get_description()) + "\n";
        options(*sub);
        out += examples_of(*sub);
      }
      walk(*sub, name);
    }
  };
  walk(root, "ft");
  return out + kExitStatus +
         ".SH SEE ALSO\n\\fBft help config\\fR prints every setting of a run's configuration.\n";
}

}  // namespace ft::commands
