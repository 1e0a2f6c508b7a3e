// Lists of files, which may be hostile, and the choice among them.
#include "app/hub/listing.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <nlohmann/json.hpp>

#include "app/hub/selection.h"
#include "engine/files/json.h"
#include "tests/data/scratch.h"

namespace ft::hub {
namespace {

using test::error_of;

const std::string kListed(40, 'a'), kSha1(40, '1'), kSha256(64, '2');

std::string listing_of(const Json& siblings, const std::string& commit = kListed) {
  return Json{{"sha", commit}, {"siblings", siblings}}.dump();
}

std::string refused(const std::string& text) {
  return error_of(Exit::input, [&] { parse_listing(text, "hub"); });
}

TEST(Listing, KnowsSizesAndHashes) {
  const Listing listing = parse_listing(
      listing_of({{{"rfilename", "a"}, {"size", 5}, {"blobId", kSha1}},
                  {{"rfilename", "b/c"}, {"blobId", kSha1}, {"lfs", {{"sha256", kSha256}, {"size", 7}}}},
                  {{"rfilename", "d"}, {"lfs", nullptr}}}),
      "hub");
  EXPECT_EQ(listing.commit, kListed);
  ASSERT_EQ(listing.files.size(), 3u);
  EXPECT_EQ(listing.files[0].size, 5);
  EXPECT_EQ(listing.files[0].hash, kSha1);
  EXPECT_EQ(listing.files[1].size, 7);
  EXPECT_EQ(listing.files[1].hash, kSha256);
  EXPECT_EQ(listing.files[2].size, -1);
  EXPECT_EQ(listing.files[2].hash, "");
}

TEST(Listing, RefusesNamesThatLeaveTheFolder) {
  for (const char* name : {"../x", "/etc/passwd", "a/../../x", "a//b", ".", "", "a/", "x\n"})
    EXPECT_NE(refused(listing_of({{{"rfilename", name}}})), "") << name;
}

TEST(Listing, RefusesNamesThatCollide) {
  EXPECT_EQ(refused(listing_of({{{"rfilename", "a"}}, {{"rfilename", "a"}}})), "hub: lists a twice");
  EXPECT_EQ(refused(listing_of({{{"rfilename", "a/b/c"}}, {{"rfilename", "a/b"}}})),
            "hub: lists a/b as a file and as a folder");
  EXPECT_EQ(refused(listing_of({{{"rfilename", "a"}}, {{"rfilename", "a-b"}}, {{"rfilename", "a/b"}}})),
            "hub: lists a as a file and as a folder");
  EXPECT_EQ(parse_listing(listing_of({{{"rfilename", "a"}}, {{"rfilename", "ab/a"}}}), "hub").files.size(),
            2u);
}

TEST(Listing, DeepFoldersNeedNoMoreMemoryThanTheirNames) {
  const auto most = [] {  // KiB
    struct rusage used {};
    getrusage(RUSAGE_SELF, &used);
    return used.ru_maxrss;
  };
  std::string deep;
  for (int i = 0; i < 500; ++i) deep += "a/";
  Json siblings;
  for (int i = 0; i < 2000; ++i) siblings.push_back({{"rfilename", std::to_string(i) + "/" + deep + "b"}});
  const std::string text = listing_of(siblings);
  const long before = most();
  EXPECT_EQ(parse_listing(text, "hub").files.size(), 2000u);
  EXPECT_LT(most() - before, 100 << 10);
}

TEST(Listing, CountsTheFilesBeforeItReadsThem) {
  const Json numbers = std::vector<int>(1'000'001);
  EXPECT_NE(refused(listing_of(numbers)).find("at most a million files"), std::string::npos);
}

TEST(Listing, RefusesHashesAndSizesThatAreNone) {
  for (const std::string& commit : {std::string(), std::string("../../x"), std::string("main"),
                                    std::string(41, 'a'), std::string(40, 'A')})
    EXPECT_NE(refused(listing_of(Json::array(), commit)).find("sha must be"), std::string::npos) << commit;
  const std::vector<Json> entries{{{"rfilename", "a"}, {"size", -2}},
                                  {{"rfilename", "a"}, {"size", std::int64_t{1} << 51}},
                                  {{"rfilename", "a"}, {"size", "5"}},
                                  {{"rfilename", "a"}, {"blobId", "../../x"}},
                                  {{"rfilename", "a"}, {"lfs", {{"sha256", "x"}, {"size", 1}}}},
                                  {{"rfilename", "a"}, {"lfs", {{"sha256", kSha256}, {"size", -1}}}},
                                  {{"size", 5}},
                                  "a"};
  for (const Json& entry : entries) EXPECT_NE(refused(listing_of({entry})), "") << entry;
  for (const char* text : {"", "[]", "{}", R"({"sha": 5})", R"({"sha": "x", "siblings": {}})"})
    EXPECT_NE(refused(text), "") << text;
  EXPECT_NE(refused(std::string(100'000, '[')).find("nested more than"), std::string::npos);
}

TEST(Listing, ETagsThatCanBeNames) {
  EXPECT_EQ(name_of_etag("\"abc\""), "abc");
  EXPECT_EQ(name_of_etag("W/\"a-b_c.1\""), "a-b_c.1");
  for (const char* field : {"", "\"\"", "\"..\"", "\".x\"", "\"a/b\"", "\"a b\"", "\"x.incomplete\""})
    EXPECT_EQ(name_of_etag(field), "") << field;
  EXPECT_EQ(name_of_etag(std::string(200, 'a')), "");
}

std::vector<std::string> chosen(const std::vector<std::string>& names, const Patterns& patterns = {},
                                HubKind kind = HubKind::model) {
  std::vector<RemoteFile> all;
  for (const std::string& name : names) all.push_back({name});
  std::vector<std::string> paths;
  for (const RemoteFile& file : select_files(all, {kind, "org/name"}, patterns)) paths.push_back(file.path);
  return paths;
}

using Names = std::vector<std::string>;

TEST(Selection, OfAModelEverythingThatFtReads) {
  const Names needed{"config.json",
                     "generation_config.json",
                     "tokenizer.json",
                     "tokenizer.model",
                     "spiece.model",
                     "merges.txt",
                     "vocab.txt",
                     "chat_template.jinja",
                     "additional_chat_templates/tool_use.jinja",
                     "model-00001-of-00002.safetensors",
                     "model-00002-of-00002.safetensors",
                     "model.safetensors.index.json"};
  Names all = needed;
  for (const char* other :
       {"README.md", "pytorch_model.bin", "pytorch_model.bin.index.json", "consolidated.safetensors",
        "original/params.json", "onnx/model.onnx", "tf_model.h5", "flax_model.msgpack", "picture.png",
        "sub/model.safetensors", "model-Q4.gguf", "LICENSE", "modeling_own.py"})
    all.push_back(other);
  EXPECT_EQ(chosen(all), needed);
}

TEST(Selection, AdaptersAndSafetensorsOfOtherNames) {
  const Names adapter{"adapter_config.json", "adapter_model.safetensors"};
  EXPECT_EQ(chosen(adapter), adapter);
  EXPECT_EQ(chosen({"config.json", "consolidated.safetensors"}),
            (Names{"config.json", "consolidated.safetensors"}));
}

TEST(Selection, WeightsOfOtherFormatsAreExplained) {
  EXPECT_NE(error_of(Exit::input,
                     [] {
                       chosen({"config.json", "pytorch_model.bin"});
                     })
                .find("has no safetensors, and ft reads no pickles"),
            std::string::npos);
  EXPECT_NE(error_of(Exit::input,
                     [] {
                       chosen({"a-Q4_K_M.gguf", "a-Q8_0.gguf"});
                     })
                .find("--include '*Q4_K_M.gguf'"),
            std::string::npos);
  EXPECT_EQ(chosen({"config.json", "tokenizer.json"}).size(), 2u);  // a tokenizer alone
  EXPECT_NE(error_of(Exit::input, [] { chosen({"a.png"}); }).find("has no files that ft reads"),
            std::string::npos);
}

TEST(Selection, OfADataSetDataAndItsCard) {
  const Names all{"README.md",
                  "dataset_infos.json",
                  "data/train-00000-of-00001.parquet",
                  "a.jsonl.gz",
                  "b.csv",
                  "load.py",
                  "images/1.png",
                  ".gitattributes",
                  "c.tar.xz"};
  EXPECT_EQ(
      chosen(all, {}, HubKind::dataset),
      (Names{"README.md", "dataset_infos.json", "data/train-00000-of-00001.parquet", "a.jsonl.gz", "b.csv"}));
  EXPECT_NE(error_of(Exit::input,
                     [] {
                       chosen({"README.md", "1.png"}, {}, HubKind::dataset);
                     })
                .find("has no files that ft reads"),
            std::string::npos);
}

TEST(Selection, StarsMatchSlashesAsInTheHubsTools) {
  const Names all{"a.json", "b/a.json", "b/c/a.json", "b/x.bin"};
  EXPECT_EQ(chosen(all, {{"*.json"}, {}}).size(), 3u);
  EXPECT_EQ(chosen(all, {{"b/*"}, {"*.bin"}}).size(), 2u);
  EXPECT_EQ(chosen(all, {{"b/"}, {}}).size(), 3u);
  EXPECT_EQ(chosen(all, {{"[ab].json", "?.json"}, {}}), Names{"a.json"});
}

}  // namespace
}  // namespace ft::hub
