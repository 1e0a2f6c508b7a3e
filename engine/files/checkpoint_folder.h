// Checkpoints that are complete or absent: OUTPUT_DIR/checkpoint-STEP is filled under a temporary name, its
// manifest.json with the size and SHA-256 of every file is written last, and then the folder is renamed.
// There is no "latest" file: the newest is the highest step that verifies. train/checkpoint decides what the
// files hold.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/files/json.h"
#include "engine/files/staged_folder.h"

namespace ft {

class CheckpointWriter {
 public:
  CheckpointWriter(const std::string& output_dir, std::int64_t step);

  // Where the files go. Write them with write_file, write_safetensors or AtomicFile, which sync them.
  const std::string& path() const { return staged_.path(); }
  // Hashes the files, writes the manifest and gives the folder its name, which it returns. `about` is an
  // object that open_checkpoint gives back. An existing checkpoint of that step is replaced atomically.
  std::string commit(const Json& about);

 private:
  std::string path_;
  std::int64_t step_;
  StagedFolder staged_;
};

struct Checkpoint {
  std::string path;                // as given
  std::int64_t step = 0;           // of the manifest
  JsonObject about;                // what commit() was given
  std::vector<std::string> files;  // names, without the manifest
};

// Opens a checkpoint and verifies the size and hash of every file. UserError(Exit::checkpoint) says what is
// missing, damaged or foreign.
Checkpoint open_checkpoint(const std::string& path);

struct NewestCheckpoint {
  std::optional<Checkpoint> checkpoint;
  std::vector<std::string> skipped;  // newer ones that are not complete, each with the reason, for a warning
};
NewestCheckpoint find_newest_checkpoint(const std::string& output_dir);

// Steps of what is called checkpoint-STEP, ascending: complete, damaged or empty.
std::vector<std::int64_t> list_checkpoint_names(const std::string& output_dir);
// Those that have a manifest, verified or not.
std::vector<std::int64_t> list_checkpoints(const std::string& output_dir);
std::string checkpoint_path(const std::string& output_dir, std::int64_t step);

// Removes the oldest checkpoints until `keep` are left, but none of the steps in `spared` (the best one,
// the one being resumed). Call it after the newest is committed.
void prune_checkpoints(const std::string& output_dir, std::int64_t keep,
                       const std::vector<std::int64_t>& spared = {});

}  // namespace ft
