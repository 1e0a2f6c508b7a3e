// The output folder of a command. It is filled under a temporary name and renamed when it is complete, so
// that a killed command leaves the old folder or none.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "engine/files/staged_folder.h"

namespace ft {

// Moves the files of a complete result into an existing folder. A killed command or a power cut leaves no mix
// of two results that loads: the old configuration is removed first, and the new one is moved last. Throws
// UserError (storage).
void move_result(const std::string& from, const std::string& to);

class OutputFolder {
 public:
  // Throws UserError (config) if the folder is not empty and `overwrite` is false, or if it holds an input.
  OutputFolder(const std::string& folder, bool overwrite, const std::vector<std::string>& inputs);

  const std::string& path() const { return staged_->path(); }  // folder for the command's files
  // Gives the folder its name. Removes the model or adapter of an overwritten folder and keeps its other
  // files.
  void commit();

 private:
  void keep_others() const;

  std::string folder_;
  bool inside_;  // staged in the folder itself, which cannot be renamed
  std::unique_ptr<StagedFolder> staged_;
};

}  // namespace ft
