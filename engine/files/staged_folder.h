// A folder that gets its name only when it is complete: it is filled under a temporary name and then renamed.
// If the process dies, the temporary folder remains, until the next StagedFolder of the same name or
// remove_leftovers() deletes it. A folder that is being filled is locked.
#pragma once
#include <string>
#include <vector>

namespace ft {

class StagedFolder {
 public:
  // Makes "GIVEN.tmp-ftXXXXXXXXXX", and its parent folder if that is missing; removes those that dead
  // processes left. Ignores slashes at the end.
  explicit StagedFolder(const std::string& given);
  StagedFolder(const StagedFolder&) = delete;
  StagedFolder& operator=(const StagedFolder&) = delete;
  ~StagedFolder();  // removes an uncommitted folder

  // The folder for the files; the caller must sync them.
  const std::string& path() const { return temporary_; }
  // Renames the folder to its final name. If a folder of that name exists: throws UserError (storage), or
  // (replace) exchanges the two atomically and removes the old one.
  void commit(bool replace = false);

 private:
  std::string path_, temporary_;
  int lock_ = -1;
};

// Renames a folder, then removes it, so that its name never stands for half of its contents.
void remove_folder(const std::string& path);

// Removes the remains of dead processes in a folder: staged folders, half-removed folders, temporary files.
// Keeps folders that a living process still fills, and all other names. `begin`: considers only names that
// begin so.
void remove_leftovers(const std::string& folder, const std::string& begin = "");

}  // namespace ft
