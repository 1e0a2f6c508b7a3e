// The files of a split: in folders of save_to_disk, and in data sets of the hub, by their card or by file
// names. Data sets that are named by ids.
#include "data/files/repository.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "data/files/path_pattern.h"
#include "data/files/yaml.h"
#include "tests/data/scratch.h"
#include "tests/support/source.h"

namespace ft {
namespace {

using test::error_of;
using test::Scratch;
using Names = std::vector<std::string>;

TEST(PathPattern, AsInCards) {
  const std::pair<const char*, const char*> yes[] = {{"a", "a"},
                                                     {"*", "a"},
                                                     {"a/*", "a/b"},
                                                     {"./a/*.x", "a/b.x"},
                                                     {"**", "a"},
                                                     {"**", "a/b/c"},
                                                     {"**/c", "c"},
                                                     {"**/c", "a/b/c"},
                                                     {"a/**", "a/b/c"},
                                                     {"a/**/c", "a/c"},
                                                     {"?b", "ab"},
                                                     {"[a-c]x", "bx"},
                                                     {"[!a-c]x", "dx"},
                                                     {"[x", "[x"},
                                                     {"a[-.]*", "a-b"},
                                                     {"*a*b", "xaxab"},
                                                     {"[]]", "]"},
                                                     {"t-[0-9]*", "t-01"},
                                                     {"data/**/x*", "data/xy"}};
  for (const auto& [pattern, path] : yes) EXPECT_TRUE(path_matches(pattern, path)) << pattern << " " << path;
  const std::pair<const char*, const char*> no[] = {
      {"a", "b"},       {"*", "a/b"},  {"a/*", "a"}, {"a/**", "a"}, {"**/c", "a/b"},
      {"[a-c]x", "dx"}, {"[!a]", "a"}, {"a?", "a"},  {"", "a"},     {"a*", "ba"}};
  for (const auto& [pattern, path] : no) EXPECT_FALSE(path_matches(pattern, path)) << pattern << " " << path;
  const std::string stars(2000, '*'), text(2000, 'a');
  EXPECT_FALSE(path_matches(stars + "b", text));  // answers at once
}

Json yaml(const std::string& text) { return read_yaml_key(text, "configs", "README.md", 2); }

TEST(Yaml, CardsAsTheyAreWritten) {
  EXPECT_EQ(
      yaml("license: mit\ntags:\n- a: b: c\nconfigs:   # these\n- config_name: main\n  data_files:\n"
           "  - split: train\n    path: \"x: #1\"\n  - split: 'it''s'\n    path:\n    - a\n    - b # c\n"
           "\n- {config_name: two, data_files: [x, 'y, z']}\n-\n  config_name: three\n  data_files:\n"
           "    - d/*\nother: 1\n")
          .dump(),
      R"([{"config_name":"main","data_files":[{"split":"train","path":"x: #1"},)"
      R"({"split":"it's","path":["a","b"]}]},{"config_name":"two","data_files":["x","y, z"]},)"
      R"({"config_name":"three","data_files":["d/*"]}])");
  EXPECT_TRUE(yaml("").is_null());
  EXPECT_TRUE(yaml("a: b\n  configs: c\n").is_null());
  EXPECT_EQ(yaml("configs: []"), Json::array());
}

TEST(Yaml, UnsupportedSyntaxIsRefused) {
  const auto error = [](const std::string& text) { return error_of(Exit::input, [&] { yaml(text); }); };
  EXPECT_EQ(error("configs:\n- &a b\n"),
            "README.md:3: YAML that ft does not read: an anchor, a tag or a text of several lines");
  EXPECT_EQ(error("configs:\n- a: b\n   c: d\n"), "README.md:4: YAML whose indentation does not fit");
  EXPECT_EQ(error("configs:\n- a: b\n  a: d\n"), "README.md:4: YAML with a key that is given twice");
  EXPECT_EQ(error("configs: [a, b\n"), "README.md:2: YAML with a list that does not end in its line");
  EXPECT_EQ(error("configs: 'a\n"), "README.md:2: YAML with a quote that does not end in its line");
  EXPECT_EQ(error("configs: " + std::string(100, '[')), "README.md:2: nested too deeply");
}

class Repository : public testing::Test {
 protected:
  void add(const Names& files) const {
    for (const std::string& file : files) scratch.write("set/" + file, "{}\n");
  }
  void card(const std::string& front) const {
    scratch.write("set/README.md", "---\n" + front + "---\n# Text\n");
  }
  Names files() const {
    Names found;
    for (const DataFile& file :
         repository_files(scratch.folder() / "set", "set", dataset, "data.datasets[0]"))
      found.push_back(file.name.substr(4));
    return found;
  }
  Names files_of(const std::string& split) {
    dataset.split = split;
    return files();
  }
  std::string error() const {
    return error_of(Exit::input, [&] { files(); });
  }

  const Scratch scratch;
  DatasetConfig dataset;
};

TEST_F(Repository, ShardsInData) {
  add({"data/train-00000-of-00002.parquet", "data/train-00001-of-00002.parquet",
       "data/my-test-00000-of-00001.parquet", "data/other.parquet", "train.jsonl"});
  EXPECT_EQ(files(), (Names{"data/train-00000-of-00002.parquet", "data/train-00001-of-00002.parquet"}));
  EXPECT_EQ(files_of("my-test"), (Names{"data/my-test-00000-of-00001.parquet"}));
  dataset.split = "validation";
  EXPECT_EQ(error(), "set: no split \"validation\"; it has my-test, train (data.datasets[0].split)");
}

TEST_F(Repository, WordsInNames) {
  add({"my_train.jsonl", "b/train_2.jsonl", "dev.jsonl", "x-test.jsonl", "contest.jsonl", ".train.jsonl",
       "__x/train.jsonl", "dataset_info.json", "train.md"});
  EXPECT_EQ(files(), (Names{"b/train_2.jsonl", "my_train.jsonl"}));
  EXPECT_EQ(files_of("validation"), (Names{"dev.jsonl"}));
  EXPECT_EQ(files_of("test"), (Names{"x-test.jsonl"}));
  add({"sub/validation/a.jsonl", "sub/validation/b/c.jsonl", "training-1/a.jsonl"});
  EXPECT_EQ(files_of("train"), (Names{"training-1/a.jsonl"}));
  EXPECT_EQ(files_of("validation"), (Names{"sub/validation/a.jsonl", "sub/validation/b/c.jsonl"}));
}

TEST_F(Repository, ByDefaultAllFilesAreTrainAndOfTheCommonestKind) {
  add({"a.csv", "b.csv", "x/c.tsv", "a.jsonl", "b.json", "LICENSE.txt"});
  EXPECT_EQ(files(), (Names{"a.csv", "b.csv", "x/c.tsv"}));
  add({"c.jsonl.gz"});
  EXPECT_EQ(files(), (Names{"a.jsonl", "b.json", "c.jsonl.gz"}));
}

TEST_F(Repository, Cards) {
  add({"m/train-1.jsonl", "m/train-2.jsonl", "m/x.jsonl", "s/test/a.jsonl", "s/train/b.jsonl"});
  card(
      "configs:\n- config_name: m\n  data_files:\n  - split: train\n    path: [m/train-2*, 'm/*-1.jsonl']\n"
      "  - split: odd\n    path: m/x.jsonl\n- config_name: s\n  data_dir: s\n- config_name: all\n"
      "  data_files: \"**/*.jsonl\"\n- config_name: gone\n  data_files: [m/x.jsonl, gone/*]\n");
  EXPECT_EQ(error(), "set: has several configurations; set data.datasets[0].name to one of m, s, all, gone");
  dataset.name = "m";
  EXPECT_EQ(files(), (Names{"m/train-2.jsonl", "m/train-1.jsonl"}));
  EXPECT_EQ(files_of("odd"), (Names{"m/x.jsonl"}));
  dataset.name = "s";
  EXPECT_EQ(files_of("test"), (Names{"s/test/a.jsonl"}));
  dataset.name = "all";
  EXPECT_EQ(files_of("train").size(), 5);
  dataset.name = "gone";
  EXPECT_EQ(error(), "set: no file of split train is there for gone/*");
  dataset.name = "nothing";
  EXPECT_EQ(error(), "set: no configuration \"nothing\"; it has m, s, all, gone (data.datasets[0].name)");
  card("configs:\n- config_name: a\n  data_files: https://x.org/y.jsonl\n");
  dataset.name = {};
  EXPECT_EQ(error(),
            "set/README.md: configs: data_files is an address (https://x.org/y.jsonl), and ft reads "
            "only files of the repository");
}

TEST_F(Repository, TheDefaultOfACard) {
  add({"a.jsonl", "b.jsonl"});
  card("configs:\n- config_name: a\n  data_files: a.jsonl\n- config_name: default\n  data_files: b.jsonl\n");
  EXPECT_EQ(files(), Names{"b.jsonl"});
  card(
      "configs:\n- config_name: a\n  data_files: a.jsonl\n  default: true\n- config_name: default\n"
      "  data_files: b.jsonl\n");
  EXPECT_EQ(files(), Names{"a.jsonl"});
  card("license: mit\n");
  EXPECT_EQ(files(), (Names{"a.jsonl", "b.jsonl"}));
  dataset.name = "x";
  EXPECT_EQ(error(), "set: no configuration \"x\"; it has none (data.datasets[0].name)");
}

TEST(SavedDataset, ShardsInTheirOrderAndSplits) {
  DatasetConfig dataset;
  const auto names = [&](const std::string& path) {
    dataset.path = path;
    Names found;
    for (const DataFile& file : find_data_files(dataset, {source_path("tests/golden/parquet")}, "data"))
      found.push_back(file.name);
    return found;
  };
  EXPECT_EQ(names("saved"), (Names{"saved/data-00000-of-00002.arrow", "saved/data-00001-of-00002.arrow"}));
  EXPECT_EQ(names("splits"), Names{"splits/train/data-00000-of-00001.arrow"});
  dataset.split = "test";
  EXPECT_EQ(names("splits"), Names{"splits/test/data-00000-of-00001.arrow"});
  EXPECT_EQ(error_of(Exit::config, [&] { names("saved"); }), "data.split: saved has no splits; leave it out");
  dataset.split = "dev";
  EXPECT_EQ(error_of(Exit::input, [&] { names("splits"); }),
            "splits: no split \"dev\"; it has train, test (data.split)");
}

TEST(SavedDataset, NamesThatLeadOutOfTheFolderAreRefused) {
  const Scratch scratch;
  scratch.write("set/state.json", R"({"_data_files": [{"filename": "../x.arrow"}]})");
  DatasetConfig dataset;
  dataset.path = "set";
  error_of(Exit::input, [&] { find_data_files(dataset, {scratch.folder()}, "data"); });
}

class HubData : public testing::Test {
 protected:
  HubData() {
    const std::string repository = "hub/datasets--org--name/";
    scratch.write(repository + "refs/main", "aaa\n");
    scratch.write(repository + "refs/refs/pr/1", "bbb");
    scratch.write(repository + "refs/broken", "ccc");
    scratch.write(repository + "refs/bad", "../../x");
    scratch.write(repository + "snapshots/aaa/train.jsonl", "{}\n");
    scratch.write(repository + "snapshots/bbb/train.jsonl", "{}\n");
    dataset.path = "org/name";
  }
  std::string found() const {
    const auto files = find_data_files(dataset, {scratch.folder(), scratch.folder() / "hub"}, "data");
    EXPECT_EQ(files.size(), 1);
    return files[0].path.lexically_relative(scratch.folder()).string() + " " + files[0].name;
  }
  std::string error(Exit exit = Exit::input) const {
    const std::string text = error_of(exit, [&] { found(); }), folder = (scratch.folder() / "hub").string();
    const std::size_t at = text.find(folder);
    return at == text.npos ? text : text.substr(0, at) + "HUB" + text.substr(at + folder.size());
  }
  const Scratch scratch;
  DatasetConfig dataset;
};

TEST_F(HubData, Revisions) {
  const std::string repository = "hub/datasets--org--name/snapshots/",
                    file = "/train.jsonl org/name/train.jsonl";
  EXPECT_EQ(found(), repository + "aaa" + file);
  for (const char* revision : {"refs/pr/1", "bbb"}) {
    dataset.revision = revision;
    EXPECT_EQ(found(), repository + "bbb" + file);
  }
  for (const char* revision : {"v9", "broken"}) {
    dataset.revision = revision;
    EXPECT_EQ(error(),
              str("org/name: no such file or folder, and the hub's cache HUB does not have it in "
                  "revision ",
                  revision, " (data.path). This fetches it: ft pull --dataset org/name --revision ", revision,
                  " (or hf download org/name --repo-type dataset --revision ", revision, ")"));
  }
  for (const char* revision : {"bad", "../x", "/x"}) {
    dataset.revision = revision;
    error();
  }
}

TEST_F(HubData, AFolderOfThatNameComesFirst) {
  scratch.write("org/name/x.jsonl", "{}\n");
  EXPECT_EQ(found(), "org/name/x.jsonl org/name/x.jsonl");
  dataset.revision = "main";
  EXPECT_EQ(error(Exit::config),
            "data.revision: org/name is on this machine; only ids of the hub have revisions");
}

TEST_F(HubData, MissingDataIsNamed) {
  dataset.path = "org/other";
  EXPECT_EQ(error(),
            "org/other: no such file or folder, and the hub's cache HUB does not have it (data.path). "
            "This fetches it: ft pull --dataset org/other (or hf download org/other --repo-type dataset)");
  for (const char* path : {"rows.jsonl", "a/b/c", "../name", "org/x..y", "a--b"}) {
    dataset.path = path;
    EXPECT_EQ(error(), str(path, ": no such file or folder (data.path)"));
  }
}

}  // namespace
}  // namespace ft
