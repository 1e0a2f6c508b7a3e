// Folders that merge, average and export write: either complete or unchanged, and files of other programs
// stay.
#include "app/files/output_folder.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "engine/core/error.h"
#include "engine/files/file.h"
#include "tests/engine/files/temp_folder.h"

namespace ft {
namespace {

namespace fs = std::filesystem;

struct Output : testing::Test {
  test::TempFolder folder;
  const std::string out = folder / "out";

  // A model of two shards, with a tokenizer, and a file and a folder that do not belong to the model.
  void old_model() const {
    for (const char* name : {"config.json", "model-00001-of-00002.safetensors", "tokenizer.json", "notes.txt",
                             "checkpoint-5/adapter_config.json", "additional_chat_templates/rag.jinja"})
      folder.write(std::string("out/") + name, name);
  }
  static void fill(const OutputFolder& output) {
    write_file(join_path(output.path(), "model.safetensors"), "new");
    write_file(join_path(output.path(), "config.json"), "new");
  }
  std::string text(const std::string& name) const { return read_file(join_path(out, name), 1000); }
  bool has(const std::string& name) const { return fs::exists(join_path(out, name)); }
};

TEST_F(Output, AppearsComplete) {
  {
    OutputFolder output(out, false, {});
    fill(output);
    EXPECT_FALSE(fs::exists(out));
    output.commit();
  }
  EXPECT_EQ(text("config.json"), "new");
  EXPECT_EQ(folder.entries(), 1u);
}

TEST_F(Output, MayEndWithASlash) {
  for (const bool there : {false, true}) {
    if (there) fs::create_directory(folder / "slash");
    OutputFolder output((folder / "slash") + (there ? "//" : "/"), false, {});
    fill(output);
    output.commit();
    EXPECT_EQ(read_file(folder / "slash/config.json", 1000), "new");
    fs::remove_all(folder / "slash");
  }
}

TEST_F(Output, OfACommandThatFailsLeavesTheOldOne) {
  old_model();
  { fill(OutputFolder(out, true, {})); }
  EXPECT_EQ(text("config.json"), "config.json");
  EXPECT_TRUE(has("tokenizer.json"));
  EXPECT_EQ(folder.entries(), 1u);
}

TEST_F(Output, ReplacesAResultAndKeepsOthersFiles) {
  old_model();
  OutputFolder output(out, true, {});
  fill(output);
  output.commit();
  EXPECT_EQ(text("config.json"), "new");
  EXPECT_EQ(text("notes.txt"), "notes.txt");
  EXPECT_TRUE(has("checkpoint-5/adapter_config.json"));
  for (const char* gone : {"tokenizer.json", "model-00001-of-00002.safetensors", "additional_chat_templates"})
    EXPECT_FALSE(has(gone)) << gone;
  EXPECT_EQ(folder.entries(), 1u);
}

TEST_F(Output, AResultMovesIntoAFolderThatHasOne) {
  old_model();
  for (const char* name : {"config.json", "model.safetensors", "additional_chat_templates/rag.jinja"})
    folder.write(std::string("new/") + name, "new");
  move_result(folder / "new", out);
  for (const char* name : {"config.json", "model.safetensors", "additional_chat_templates/rag.jinja"})
    EXPECT_EQ(text(name), "new") << name;
  EXPECT_EQ(text("notes.txt"), "notes.txt");
  EXPECT_EQ(text("tokenizer.json"), "tokenizer.json");
}

TEST_F(Output, GoesWhereALinkLeads) {
  fs::create_directory(folder / "real");
  fs::create_directory_symlink(folder / "real", out);
  OutputFolder output(out, false, {});
  fill(output);
  output.commit();
  EXPECT_TRUE(fs::is_symlink(out));
  EXPECT_EQ(read_file(folder / "real/config.json", 1000), "new");
}

TEST_F(Output, RemovesTheFilesOfAKilledCommand) {
  fs::create_directory(out + ".tmp-ft0000000000");
  fs::create_directory(folder / "other.tmp-ft0000000000");
  OutputFolder output(out, false, {});
  EXPECT_FALSE(fs::exists(out + ".tmp-ft0000000000"));
  EXPECT_TRUE(fs::exists(folder / "other.tmp-ft0000000000"));
}

TEST_F(Output, OfAnotherModelIsRefused) {
  old_model();
  EXPECT_THROW(OutputFolder(out, false, {}), UserError);
  EXPECT_THROW(OutputFolder(out, true, {out}), UserError);
}

}  // namespace
}  // namespace ft
