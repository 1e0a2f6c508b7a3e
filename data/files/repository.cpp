#include "data/files/repository.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "data/files/file_formats.h"
#include "data/files/path_pattern.h"
#include "data/files/saved_dataset.h"
#include "data/files/yaml.h"
#include "engine/core/error.h"
#include "engine/files/file.h"

namespace ft {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostFiles = 1'000'000;

// A split and the patterns of its files.
struct Split {
  std::string name;
  std::vector<std::string> patterns;
};

struct Configuration {
  std::string name;
  bool is_default = false;
  std::string data_dir;
  std::vector<Split> splits;  // empty: found by names
};

// Reads "a" or ["a", "b"].
std::vector<std::string> texts_of(const Json& value, const std::string& where) {
  std::vector<std::string> texts;
  const auto add = [&](const Json& v) {
    if (!v.is_string()) throw UserError(Exit::input, where + " is neither a path nor a list of paths");
    texts.push_back(v.get<std::string>());
    if (texts.back().find("://") != std::string::npos)
      throw UserError(Exit::input, str(where, " is an address (", printable(texts.back(), 80),
                                       "), and ft reads only files of the repository"));
  };
  if (value.is_array())
    for (const Json& v : value) add(v);
  else
    add(value);
  return texts;
}

std::vector<Split> splits_of(const Json& files, const std::string& where) {
  std::vector<Split> splits;
  const bool named = files.is_array() && !files.empty() && files[0].is_object();
  if (!named) return {{"train", texts_of(files, where)}};
  for (const Json& item : files) {
    if (!item.is_object() || !item.contains("split") || !item["split"].is_string() || !item.contains("path"))
      throw UserError(Exit::input, where + " must be a list of split and path");
    splits.push_back({item["split"].get<std::string>(), texts_of(item["path"], where)});
  }
  return splits;
}

std::vector<Configuration> read_card(const fs::path& file, const std::string& name) {
  std::error_code none;
  if (!fs::is_regular_file(file, none)) return {};
  constexpr std::int64_t kLargest = std::int64_t{64} << 20;
  const Json list = read_yaml_key(front_matter(read_file(file.string(), kLargest)), "configs", name, 2);
  std::vector<Configuration> all;
  if (list.is_null()) return all;
  const std::string where = printable(name) + ": configs";
  if (!list.is_array()) throw UserError(Exit::input, where + " must be a list");
  const auto text = [&](const Json& item, const char* key) {
    if (!item.contains(key) || item[key].is_null()) return std::string();
    if (!item[key].is_string()) throw UserError(Exit::input, str(where, ": ", key, " must be a text"));
    return item[key].get<std::string>();
  };
  for (const Json& item : list) {
    if (!item.is_object() || text(item, "config_name").empty())
      throw UserError(Exit::input, where + " must be a list of mappings with a config_name");
    Configuration c{.name = text(item, "config_name"), .data_dir = text(item, "data_dir")};
    const std::string is_default = text(item, "default");
    c.is_default = is_default == "true" || is_default == "True" || is_default == "TRUE";
    if (item.contains("data_files")) c.splits = splits_of(item["data_files"], where + ": data_files");
    all.push_back(std::move(c));
  }
  return all;
}

Configuration choose_configuration(const std::vector<Configuration>& all, const std::string& name,
                                   const DatasetConfig& dataset, const std::string& setting) {
  std::string there;
  for (const Configuration& c : all) there += (there.empty() ? "" : ", ") + printable(c.name, 60);
  const auto find = [&](const auto& fits) {
    const auto it = std::find_if(all.begin(), all.end(), fits);
    return it == all.end() ? nullptr : &*it;
  };
  if (dataset.name) {
    if (all.empty() && *dataset.name == "default") return {};
    if (const auto* c = find([&](const auto& x) { return x.name == *dataset.name; })) return *c;
    throw UserError(Exit::input, str(printable(name), ": no configuration \"", printable(*dataset.name, 60),
                                     "\"; it has ", there.empty() ? "none" : there, " (", setting, ".name)"));
  }
  if (all.empty()) return {};
  if (all.size() == 1) return all[0];
  if (const auto* c = find([](const auto& x) { return x.is_default; })) return *c;
  if (const auto* c = find([](const auto& x) { return x.name == "default"; })) return *c;
  throw UserError(Exit::input, str(printable(name), ": has several configurations; set ", setting,
                                   ".name to one of ", there));
}

// Returns the data files below a folder, as sorted paths relative to it. Hidden files and folders such as
// __pycache__ are skipped.
std::vector<std::string> data_below(const fs::path& folder, const std::string& name) {
  std::vector<std::string> files;
  std::error_code error;
  fs::recursive_directory_iterator it(folder, error);
  for (const fs::recursive_directory_iterator end; !error && it != end; it.increment(error)) {
    const std::string own = it->path().filename().string();
    std::error_code none;
    if (it->is_directory(none)) {
      if (own.starts_with('.') || own.starts_with("__") || it.depth() > 30) it.disable_recursion_pending();
    } else if (!own.starts_with('.') && own != "config.json" && is_data_file(it->path())) {
      files.push_back(fs::path(it->path()).lexically_relative(folder).generic_string());
      if (files.size() > kMostFiles)
        throw UserError(Exit::input, printable(name) + ": more than a million files");
    }
  }
  if (error) throw UserError(Exit::input, str(printable(name), ": ", error.message()));
  std::sort(files.begin(), files.end());
  return files;
}

// Returns the files that match, in the order of the patterns.
std::vector<std::string> matching(const std::vector<std::string>& files, const std::string& folder,
                                  const std::vector<std::string>& patterns) {
  std::vector<std::string> found;
  std::vector<bool> taken(files.size());
  for (const std::string& pattern : patterns) {
    const std::string whole = (fs::path(folder) / pattern).generic_string();
    for (std::size_t i = 0; i < files.size(); ++i) {
      if (taken[i] || !path_matches(whole, files[i])) continue;
      taken[i] = true;
      found.push_back(files[i]);
    }
  }
  return found;
}

// Returns the split in a shard's name: train for train-00000-of-00002.parquet; empty for other names.
std::string split_of_shard(const std::string& file) {
  constexpr std::size_t kDigits = 5;
  const auto digits = [&](std::size_t at) {
    return at + kDigits <= file.size() &&
           std::all_of(file.begin() + static_cast<std::ptrdiff_t>(at),
                       file.begin() + static_cast<std::ptrdiff_t>(at + kDigits),
                       [](char c) { return '0' <= c && c <= '9'; });
  };
  const std::size_t of = file.rfind("-of-");
  if (of == file.npos || of < kDigits + 2 || !digits(of - kDigits) || !digits(of + 4)) return "";
  return file[of - kDigits - 1] == '-' ? file.substr(0, of - kDigits - 1) : "";
}

// Finds splits by shards: each NAME of data/NAME-00000-of-00002.parquet is a split.
std::vector<Split> sharded_splits(const std::vector<std::string>& files, const std::string& folder) {
  std::vector<Split> splits;
  for (const std::string& file : matching(files, folder, {"data/*"})) {
    const std::string name = split_of_shard(fs::path(file).filename().string());
    const auto same = [&](const Split& s) { return s.name == name; };
    if (!name.empty() && std::none_of(splits.begin(), splits.end(), same))
      splits.push_back(
          {name, {"data/" + name + "-[0-9][0-9][0-9][0-9][0-9]-of-[0-9][0-9][0-9][0-9][0-9]*.*"}});
  }
  return splits;
}

// Finds splits by words in the names of folders, or else of files.
std::vector<Split> splits_by_words(const std::vector<std::string>& files, const std::string& folder) {
  static const std::pair<const char*, std::vector<const char*>> kWords[] = {
      {"train", {"train", "training"}},
      {"validation", {"validation", "valid", "dev", "val"}},
      {"test", {"test", "testing", "eval", "evaluation"}}};
  const std::string behind = "[-._ 0-9]";
  for (const bool folders : {true, false}) {
    std::vector<Split> splits;
    for (const auto& [name, words] : kWords) {
      Split split{name, {}};
      for (const std::string word : words)
        for (const std::string& pattern :
             folders ? std::vector<std::string>{"**/" + word + "/**", "**/" + word + behind + "*/**",
                                                "**/*" + behind + word + "/**",
                                                "**/*" + behind + word + behind + "*/**"}
                     : std::vector<std::string>{"**/" + word + behind + "*",
                                                "**/*" + behind + word + behind + "*"})
          split.patterns.push_back(pattern);
      if (!matching(files, folder, split.patterns).empty()) splits.push_back(split);
    }
    if (!splits.empty()) return splits;
  }
  return {{"train", {"**"}}};
}

// Returns one format for equivalent ones: a data set has its most common format.
const FileFormat* kin_of(const std::string& file) {
  const FileFormat* format = format_of_file(file);
  return format && format->kin ? format->kin : format;
}

// Keeps the files of one format; of equally common formats columnar ones come first.
void keep_most_common_format(std::vector<std::string>& files) {
  std::map<const FileFormat*, int> counts;
  for (const std::string& file : files) ++counts[kin_of(file)];
  const FileFormat* best = nullptr;
  for (const bool columnar : {true, false})
    for (const FileFormat* format : kFileFormats)
      if (format->compresses == columnar && counts[format] > 0 && (!best || counts[format] > counts[best]))
        best = format;
  std::erase_if(files, [&](const std::string& file) { return kin_of(file) != best; });
}

}  // namespace

std::vector<DataFile> repository_files(const fs::path& folder, const std::string& name,
                                       const DatasetConfig& dataset, const std::string& setting) {
  const auto cards = read_card(folder / "README.md", (fs::path(name) / "README.md").string());
  Configuration chosen = choose_configuration(cards, name, dataset, setting);
  const std::vector<std::string> all = data_below(folder, name);
  if (all.empty()) throw UserError(Exit::input, printable(name) + ": has no data files that ft reads");
  const bool by_card = !chosen.splits.empty();
  if (chosen.splits.empty()) chosen.splits = sharded_splits(all, chosen.data_dir);
  if (chosen.splits.empty()) chosen.splits = splits_by_words(all, chosen.data_dir);
  std::vector<std::string> names;
  for (const Split& split : chosen.splits) names.push_back(split.name);
  const std::string wanted = choose_split(dataset, names, name, setting);
  const auto it = std::find(names.begin(), names.end(), wanted);
  const Split& split = chosen.splits[static_cast<std::size_t>(it - names.begin())];
  for (const std::string& pattern : split.patterns)  // patterns made from words may match nothing
    if (by_card && matching(all, chosen.data_dir, {pattern}).empty())
      throw UserError(Exit::input, str(printable(name), ": no file of split ", printable(wanted, 60),
                                       " is there for ", printable(pattern, 120)));
  std::vector<std::string> files = matching(all, chosen.data_dir, split.patterns);
  keep_most_common_format(files);
  std::vector<DataFile> found;
  for (const std::string& file : files) found.push_back({folder / file, (fs::path(name) / file).string()});
  return found;
}

}  // namespace ft
