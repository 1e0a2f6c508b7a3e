#include "app/cli/tree.h"

#include <functional>

namespace ft::commands {

Names names_below(const CLI::App& app) {
  Names names;
  for (const CLI::App* below : app.get_subcommands({})) names.push_back(below->get_name());
  return names;
}

Names options_below(const CLI::App& root) {
  Names all;
  const std::function<void(const CLI::App&, const std::string&)> walk = [&](const CLI::App& app,
                                                                            const std::string& path) {
    for (const CLI::Option* option : app.get_options())
      if (const std::string name = option->get_name(); name != "--help") all.push_back(path + name);
    for (const CLI::App* sub : app.get_subcommands({})) walk(*sub, path + sub->get_name() + " ");
  };
  walk(root, "");
  return all;
}

}  // namespace ft::commands
