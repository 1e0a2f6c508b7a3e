// Checkpoints are complete or absent, even if the process is killed while saving; damage of any kind is
// found.
#include "engine/files/checkpoint_folder.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <nlohmann/json.hpp>
#include <random>

#include "engine/files/file.h"
#include "engine/files/hash.h"
#include "tests/engine/files/temp_folder.h"

namespace ft {
namespace {

using test::error_of;
using test::slurp;
using test::TempFolder;

std::string save(const std::string& dir, std::int64_t step, const std::string& content = "weights") {
  CheckpointWriter writer(dir, step);
  write_file(writer.path() + "/a.bin", content);
  write_file(writer.path() + "/b.bin", content + content);
  return writer.commit({{"loss", 0.1}, {"step", step}});
}

TEST(Sha256, KnownAnswers) {
  EXPECT_EQ(sha256(std::string_view("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256(std::string_view("abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  const TempFolder folder;
  const std::string large(3'000'001, 'x');
  EXPECT_EQ(sha256(InputFile(folder.write("a", large))), sha256(large));
}

TEST(Sha256, LargeFilesAreSampled) {
  const TempFolder folder;
  const auto hash = [&](const std::string& bytes) {
    return sampled_sha256(InputFile(folder.write("a", bytes)));
  };
  const std::string small(3'000'001, 'x');
  EXPECT_EQ(hash(small), sha256(small));
  std::string large((std::size_t{64} << 20) + 7, 'x');
  const std::string first = hash(large);
  EXPECT_NE(first, sha256(large));
  EXPECT_EQ(first, hash(large));
  for (const std::size_t at : {std::size_t{0}, large.size() - 1}) {
    large[at] = 'y';
    EXPECT_NE(hash(large), first) << at;
    large[at] = 'x';
  }
  EXPECT_NE(hash(large + 'x'), first);
}

TEST(Checkpoint, SavesAndOpens) {
  const TempFolder folder;
  const std::string dir = folder / "out";
  EXPECT_EQ(save(dir, 3), dir + "/checkpoint-3");
  const Checkpoint c = open_checkpoint(dir + "/checkpoint-3");
  EXPECT_EQ(c.step, 3);
  EXPECT_EQ(c.about.number("loss"), 0.1);
  EXPECT_EQ(c.files, (std::vector<std::string>{"a.bin", "b.bin"}));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir), {}), 1);
  const std::string manifest = slurp(dir + "/checkpoint-3/manifest.json");
  EXPECT_EQ(manifest.substr(0, 70),
            "{\n  \"format\": \"ft checkpoint\",\n  \"version\": 1,\n  \"step\": 3,\n  \"about\":");
}

TEST(Checkpoint, HasFilesInFolders) {
  const TempFolder folder;
  CheckpointWriter writer(folder.path(), 1);
  std::filesystem::create_directory(writer.path() + "/templates");
  write_file(writer.path() + "/templates/a.jinja", "text");
  write_file(writer.path() + "/a.bin", "weights");
  const std::string path = writer.commit({{"step", 1}});
  EXPECT_EQ(open_checkpoint(path).files, (std::vector<std::string>{"a.bin", "templates/a.jinja"}));
  folder.write("checkpoint-1/templates/a.jinja", "tex ");
  EXPECT_EQ(error_of([&] { open_checkpoint(path); }),
            "4 " + path + "/templates/a.jinja: is damaged: its SHA-256 is not the manifest's");
}

// A link would be missing from the manifest, or stand for bytes outside of the checkpoint.
TEST(Checkpoint, HasNoLinks) {
  const TempFolder folder;
  const TempFolder elsewhere;
  elsewhere.write("in/c.bin", "of another");
  for (const char* target : {"in", "in/c.bin", "nothing"}) {
    CheckpointWriter writer(folder.path(), 5);
    write_file(writer.path() + "/a.bin", "weights");
    std::filesystem::create_directory(writer.path() + "/sub");
    std::filesystem::create_symlink(elsewhere / target, writer.path() + "/sub/link");
    EXPECT_EQ(error_of([&] { writer.commit(Json::object()); }),
              "6 " + writer.path() +
                  "/sub/link: is a symbolic link; ft writes through no link in an output folder; remove it");
  }
  EXPECT_EQ(folder.entries(), 0u);
}

TEST(Checkpoint, ReplacesAtOneStroke) {
  const TempFolder folder;
  save(folder.path(), 3, "old");
  save(folder.path(), 3, "new");
  EXPECT_EQ(slurp(folder / "checkpoint-3/a.bin"), "new");
  open_checkpoint(folder / "checkpoint-3");
  EXPECT_EQ(folder.entries(), 1u);
}

TEST(Checkpoint, LeavesNoFilesIfNotCommitted) {
  const TempFolder folder;
  {
    const CheckpointWriter writer(folder.path(), 3);
    write_file(writer.path() + "/a.bin", "x");
    EXPECT_EQ(folder.entries(), 1u);
  }
  EXPECT_EQ(folder.entries(), 0u);
  folder.write("file", "");
  EXPECT_EQ(error_of([&] { CheckpointWriter(folder / "file", 1); }),
            "6 " + folder / "file: cannot be written: Not a directory");
}

TEST(Checkpoint, ExplainsWhyAPathIsNoCheckpoint) {
  const TempFolder folder;
  const auto says = [&](const std::string& name) {
    return error_of([&] { open_checkpoint(folder / name); });
  };
  EXPECT_EQ(says("saved"), "4 " + folder / "saved: there is no such checkpoint");
  folder.write("saved", "x");
  EXPECT_EQ(says("saved"), "4 " + folder / "saved: is a file; a checkpoint is a folder");
  folder.write("foreign/adapter_config.json", "{}");
  EXPECT_EQ(says("foreign"), "4 " + folder / "foreign" +
                                 ": contains an adapter but no checkpoint of ft (no manifest.json); "
                                 "lora.adapter_name_or_path starts from an adapter");
  std::filesystem::create_directory(folder / "empty");
  EXPECT_EQ(says("empty"), "4 " + folder / "empty: is not a checkpoint of ft: it has no manifest.json");
  save(folder / "out", 12);
  save(folder / "out", 7);
  EXPECT_EQ(says("out"), "4 " + folder / "out: is not a checkpoint but contains some; the newest is " +
                             folder / "out/checkpoint-12");
  folder.write("else/manifest.json", "{\"name\": \"app\"}");
  EXPECT_EQ(says("else"), "4 " + folder / "else: is not a checkpoint of ft according to its manifest.json");
  folder.write("new/manifest.json", "{\"format\": \"ft checkpoint\", \"version\": 2}");
  EXPECT_EQ(says("new"), "4 " + folder / "new: was written by a newer ft: format 2, this one reads up to 1");
  folder.write("bad/manifest.json", "{\"format\": ");
  EXPECT_EQ(says("bad").substr(0, (folder / "bad").size() + 28),
            "4 " + folder / "bad/manifest.json:1: not JSON");
}

TEST(Checkpoint, NamesDamagedFiles) {
  const TempFolder folder;
  const std::string c = save(folder.path(), 3);
  const auto says = [&] { return error_of([&] { open_checkpoint(c); }); };
  folder.write("checkpoint-3/a.bin", "weightz");
  EXPECT_EQ(says(), "4 " + c + "/a.bin: is damaged: its SHA-256 is not the manifest's");
  EXPECT_EQ(read_checkpoint(c).step, 3) << "hashes are verified by one rank only";
  folder.write("checkpoint-3/a.bin", "weight");
  EXPECT_NE(error_of([&] { read_checkpoint(c); }), "");
  EXPECT_EQ(says(), "4 " + c + "/a.bin: is damaged: 6 bytes, the manifest states 7");
  std::filesystem::remove(c + "/a.bin");
  EXPECT_EQ(says(), "4 " + c + "/a.bin: is missing from the checkpoint");
  std::filesystem::create_directory(c + "/a.bin");
  EXPECT_EQ(says(), "4 " + c + "/a.bin: is a folder, not a regular file");
}

TEST(Checkpoint, NamesOfTheManifestStayInside) {
  const TempFolder folder;
  folder.write("secret", "x");
  Json manifest = {{"format", "ft checkpoint"}, {"version", 1}, {"step", 3}, {"about", Json::object()}};
  manifest["files"] = {{"../secret", {{"bytes", 1}, {"sha256", sha256(std::string_view("x"))}}}};
  manifest["sha256"] = sha256(json_text(manifest));
  folder.write("c/manifest.json", json_text(manifest) + "\n");
  EXPECT_EQ(error_of([&] { open_checkpoint(folder / "c"); }).substr(0, (folder / "c").size() + 46),
            "4 " + folder / "c/manifest.json: names the file \"../secret\"; ");
}

// Every single wrong bit is found, in every file.
TEST(Checkpoint, EveryFlippedBitIsFound) {
  const TempFolder folder;
  const std::string c = save(folder.path(), 3);
  for (const std::string name : {"a.bin", "b.bin", "manifest.json"}) {
    const std::string path = "checkpoint-3/" + name, good = slurp(folder / path);
    for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
      std::string bad = good;
      bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
      folder.write(path, bad);
      ASSERT_EQ(error_of([&] { open_checkpoint(c); }).substr(0, 2), "4 ") << name << " bit " << bit;
    }
    folder.write(path, good);
  }
  open_checkpoint(c);
}

TEST(Checkpoint, FindsTheNewestCompleteOne) {
  const TempFolder folder;
  EXPECT_FALSE(find_newest_checkpoint(folder / "none").checkpoint);
  for (const int step : {2, 10, 9}) save(folder.path(), step);
  folder.write("checkpoint-012/manifest.json", "{}");  // ft writes no such name
  folder.write("checkpoint-x/manifest.json", "{}");
  EXPECT_EQ(list_checkpoints(folder.path()), (std::vector<std::int64_t>{2, 9, 10}));
  auto found = find_newest_checkpoint(folder.path());
  EXPECT_EQ(found.checkpoint->step, 10);
  EXPECT_TRUE(found.skipped.empty());
  folder.write("checkpoint-11/model.safetensors", "half");
  EXPECT_EQ(list_checkpoints(folder.path()), (std::vector<std::int64_t>{2, 9, 10}));
  EXPECT_EQ(list_checkpoint_names(folder.path()), (std::vector<std::int64_t>{2, 9, 10, 11}));
  found = find_newest_checkpoint(folder.path());
  EXPECT_EQ(found.checkpoint->step, 10);
  EXPECT_EQ(found.skipped,
            (std::vector<std::string>{folder / "checkpoint-11: is not a checkpoint of ft: it has no "
                                               "manifest.json"}));
  std::filesystem::remove_all(folder / "checkpoint-11");
  folder.write("checkpoint-10/b.bin", "damaged");
  found = find_newest_checkpoint(folder.path());
  EXPECT_EQ(found.checkpoint->path, folder / "checkpoint-9");
  EXPECT_EQ(found.skipped, (std::vector<std::string>{
                               folder / "checkpoint-10/b.bin: is damaged: 7 bytes, the manifest states 14"}));
}

TEST(Checkpoint, PrunesTheOldest) {
  const TempFolder folder;
  for (int step = 1; step <= 6; ++step) save(folder.path(), step);
  folder.write("checkpoint-0/model.safetensors", "not ours");
  prune_checkpoints(folder.path(), 3, {2});
  EXPECT_EQ(list_checkpoints(folder.path()), (std::vector<std::int64_t>{2, 5, 6}));
  prune_checkpoints(folder.path(), 1, {2});
  EXPECT_EQ(list_checkpoints(folder.path()), (std::vector<std::int64_t>{2, 6}));
  prune_checkpoints(folder.path(), 0);
  EXPECT_EQ(list_checkpoints(folder.path()), (std::vector<std::int64_t>{6}));
  EXPECT_EQ(folder.entries(), 2u);
}

TEST(Leftovers, OfDeadProcessesAreRemovedOfLivingOnesKept) {
  const TempFolder folder;
  folder.write("checkpoint-1.tmp-ft0123456789/a", "x");
  folder.write("checkpoint-1.trash-ftabcdefghij/a", "x");
  folder.write(".run.json.tmp-ft0123456789", "x");
  folder.write("notes.tmp-0123456789", "mine");
  folder.write("notes.tmp-ft", "mine");
  folder.write(".tmp-ftabcdefghiJ", "mine");
  save(folder.path(), 2);
  const CheckpointWriter writer(folder.path(), 3);
  AtomicFile file(folder / "log");
  remove_leftovers(folder.path());
  EXPECT_EQ(folder.entries(), 6u);
  EXPECT_TRUE(std::filesystem::exists(writer.path()));
  file.commit();
}

// kill -9 at random instants of saving: checkpoints that were reported as saved can be opened, and the newest
// one is found.
TEST(Checkpoint, AKillAtAnyTimeLeavesTheLastCompleteOne) {
  const TempFolder folder;
  std::mt19937 random(11);
  std::int64_t reported = 0;
  int interrupted = 0;
  for (int round = 0; round < 25; ++round) {
    int pipe[2];
    ASSERT_EQ(::pipe(pipe), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      remove_leftovers(folder.path());
      for (std::int64_t step = reported + 1;; ++step) {
        save(folder.path(), step % 3 == 0 ? step - 1 : step,
             std::string(200'000, 'w'));  // sometimes replaces an existing one
        prune_checkpoints(folder.path(), 2);
        if (::write(pipe[1], &step, sizeof step) != sizeof step) ::_exit(1);
      }
    }
    ::close(pipe[1]);
    if (std::int64_t step; ::read(pipe[0], &step, sizeof step) == sizeof step) reported = step;
    ::usleep(static_cast<useconds_t>(random() % 40'000));
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    for (std::int64_t step; ::read(pipe[0], &step, sizeof step) == sizeof step;) reported = step;
    ::close(pipe[0]);
    const auto found = find_newest_checkpoint(folder.path());
    EXPECT_TRUE(found.skipped.empty());
    ASSERT_TRUE(found.checkpoint);
    EXPECT_GE(found.checkpoint->step, reported % 3 == 0 ? reported - 1 : reported);
    interrupted += folder.entries() > list_checkpoints(folder.path()).size();
  }
  EXPECT_GT(reported, 3);
  EXPECT_GT(interrupted, 0);  // some kills hit a save
  remove_leftovers(folder.path());
  EXPECT_EQ(folder.entries(), list_checkpoints(folder.path()).size());
}

// A disk that fills up at any byte: exit 6, the earlier checkpoint stays complete and nothing is left of the
// new one.
TEST(Checkpoint, AFullDiskLeavesTheLastCompleteOne) {
  const TempFolder folder;
  save(folder.path(), 1);
  for (const rlim_t bytes : {0, 5, 7, 13, 14, 100, 400}) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::signal(SIGXFSZ, SIG_IGN);
      const rlimit limit{bytes, bytes};
      ::setrlimit(RLIMIT_FSIZE, &limit);
      const std::string says = error_of([&] { save(folder.path(), 2); });
      ::_exit(says.substr(0, 2) == "6 " && says.ends_with("cannot be written: File too large") ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0) << bytes;
    EXPECT_EQ(folder.entries(), 1u);
    EXPECT_EQ(find_newest_checkpoint(folder.path()).checkpoint->step, 1);
  }
}

}  // namespace
}  // namespace ft
