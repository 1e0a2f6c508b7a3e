// Checkpoints that are complete or absent. OUTPUT_DIR/checkpoint-STEP is filled under a temporary name; then
// manifest.json is written, with the size and SHA-256 of every file; last, the folder is renamed. There is no
// "latest" file: the newest checkpoint is the one with the highest step that verifies. train/checkpoint
// defines the contents of the files.
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

  // The folder for the files. Write them with write_file, write_safetensors or AtomicFile, which sync them.
  const std::string& path() const { return staged_.path(); }
  // Hashes the files, writes the manifest, renames the folder to its final name and returns that.
  // open_checkpoint returns the object `about`. An existing checkpoint of that step is replaced atomically.
  std::string commit(const Json& about);

 private:
  std::string path_;
  std::int64_t step_;
  StagedFolder staged_;
};

struct Checkpoint {
  std::string path;                // as given
  std::int64_t step = 0;           // from the manifest
  JsonObject about;                // the argument of commit()
  std::vector<std::string> files;  // names, without the manifest
};

// Opens a checkpoint and verifies the size and hash of every file. Throws UserError (checkpoint) if a file is
// missing or damaged, or the folder is not a checkpoint of ft.
Checkpoint open_checkpoint(const std::string& path);
// Reads the manifest of a checkpoint that another rank has opened, and verifies the files' sizes only. Throws
// like open_checkpoint.
Checkpoint read_checkpoint(const std::string& path);

struct NewestCheckpoint {
  std::optional<Checkpoint> checkpoint;
  std::vector<std::string> skipped;  // incomplete newer checkpoints, each with the reason, for a warning
};
NewestCheckpoint find_newest_checkpoint(const std::string& output_dir);

// Steps of all folders called checkpoint-STEP, ascending: complete, damaged or empty.
std::vector<std::int64_t> list_checkpoint_names(const std::string& output_dir);
// Steps of the folders that have a manifest, verified or not.
std::vector<std::int64_t> list_checkpoints(const std::string& output_dir);
std::string checkpoint_path(const std::string& output_dir, std::int64_t step);

// Removes the oldest checkpoints until `keep` are left, except the steps in `spared` (the best one, the one
// being resumed). Call it after the newest is committed.
void prune_checkpoints(const std::string& output_dir, std::int64_t keep,
                       const std::vector<std::int64_t>& spared = {});

}  // namespace ft
