// A folder that appears under its name only when it is whole: it is filled under a temporary name beside
// and then renamed. A process that dies leaves the temporary folder, which remove_leftovers() takes away
// later: as long as somebody is filling it, it is locked.
#pragma once
#include <string>
#include <vector>

namespace ft {

class StagedFolder {
 public:
  // Makes "PATH.tmp-ftXXXXXXXXXX"; the folder it lies in is made when missing.
  explicit StagedFolder(const std::string& path);
  StagedFolder(const StagedFolder&) = delete;
  StagedFolder& operator=(const StagedFolder&) = delete;
  ~StagedFolder();  // removes what was not committed

  const std::string& path() const {
    return temporary_;
  }  // where the files go; they must be synced themselves
  // Gives it its name. A folder that has the name already is Exit::storage, or is exchanged at one stroke for
  // the new one and then removed.
  void commit(bool replace = false);

 private:
  std::string path_, temporary_;
  int lock_ = -1;
};

// Takes a folder away such that its name never stands for half of it: renames it first.
void remove_folder(const std::string& path);

// Removes what dead processes left in a folder: staged folders, folders half removed, temporary files. What a
// living process still fills, and whatever is not named like that, stays.
void remove_leftovers(const std::string& folder);

}  // namespace ft
