// The folder that a command writes: filled under a temporary name, it appears when it is complete, so that
// a command that is killed leaves the old folder or none.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "engine/files/staged_folder.h"

namespace ft {

class OutputFolder {
 public:
  // Refuses a folder that is not empty (Exit::config), unless `overwrite`, and one that holds an input.
  OutputFolder(const std::string& folder, bool overwrite, const std::vector<std::string>& inputs);

  const std::string& path() const { return staged_->path(); }  // the files go here
  // Gives the folder its name. The model or adapter in an overwritten folder goes, everything else in it
  // stays.
  void commit();

 private:
  void keep_others() const;
  void move_in() const;

  std::string folder_;
  bool inside_;  // staged within the folder: it cannot be renamed, or its parent cannot be written
  std::unique_ptr<StagedFolder> staged_;
};

}  // namespace ft
