// The hub's address, this user's token and the cache, as huggingface_hub finds them: from HF_ENDPOINT,
// HF_TOKEN and HF_HOME.
#pragma once
#include <filesystem>
#include <string>

namespace ft::hub {

// Returns the folder that huggingface_hub would use: HF_HUB_CACHE, else HUGGINGFACE_HUB_CACHE, else hub in
// HF_HOME, else huggingface/hub in XDG_CACHE_HOME or ~/.cache.
std::filesystem::path cache_folder();

struct Access {
  std::filesystem::path cache;
  std::string endpoint;      // https://huggingface.co; no slash at the end
  std::string token;         // empty: none. Never printed, and sent to the endpoint's host only
  std::string token_source;  // HF_TOKEN or a file, for messages; empty: no token
  std::string certificates;  // file of the authorities to trust; empty: the library's default

  // Returns the page of a model or data set: https://huggingface.co/datasets/org/name.
  std::string page(bool dataset, const std::string& id) const;
};

// Reads the environment and the token's file. Throws UserError (config) if HF_HUB_OFFLINE forbids
// connections, HF_ENDPOINT is not an address or the token has characters that no token has.
Access find_access();

}  // namespace ft::hub
