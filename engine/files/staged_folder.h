// A folder that appears under its name only when it is complete: it is filled under a temporary name and then
// renamed. If the process dies, the temporary folder remains and remove_leftovers() deletes it later; a
// folder that is being filled is locked.
#pragma once
#include <string>
#include <vector>

namespace ft {

class StagedFolder {
 public:
  // Makes "GIVEN.tmp-ftXXXXXXXXXX", and a parent folder that is missing. Slashes at the end do not count.
  explicit StagedFolder(const std::string& given);
  StagedFolder(const StagedFolder&) = delete;
  StagedFolder& operator=(const StagedFolder&) = delete;
  ~StagedFolder();  // removes what was not committed

  const std::string& path() const {
    return temporary_;
  }  // where the files go; they must be synced themselves
  // Gives it its name. An existing folder of that name is an error (Exit::storage), or is atomically
  // exchanged for the new one and then removed.
  void commit(bool replace = false);

 private:
  std::string path_, temporary_;
  int lock_ = -1;
};

// Takes a folder away such that its name never stands for half of it: renames it first.
void remove_folder(const std::string& path);

// Removes what dead processes left in a folder: staged folders, folders half removed, temporary files. What a
// living process still fills, and whatever is not named like that, stays. `begin`: only names that begin so.
void remove_leftovers(const std::string& folder, const std::string& begin = "");

}  // namespace ft
