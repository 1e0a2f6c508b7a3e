// The files of a model or data set that are fetched.
#pragma once
#include <string>
#include <vector>

#include "app/hub/listing.h"
#include "engine/files/hub_cache.h"

namespace ft::hub {

// Patterns of names, as huggingface_hub's: *, ? and [a-z], where * also matches "/"; one that ends in "/"
// is a folder.
struct Patterns {
  std::vector<std::string> include;  // empty: the files that ft needs
  std::vector<std::string> exclude;
};

// Returns true if one of the patterns matches.
bool matches_any(const std::string& path, const std::vector<std::string>& patterns);

// Returns the files that match. Without patterns to include, these are the files that ft needs: of a model
// its configuration, tokenizer, templates and safetensors; of a data set its card and the data that ft
// reads. Throws UserError (input) if there are none, or a model has only weights in other formats.
std::vector<RemoteFile> select_files(const std::vector<RemoteFile>& all, const HubName& name,
                                     const Patterns& patterns);

}  // namespace ft::hub
