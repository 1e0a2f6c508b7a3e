// The hub's refusals as errors that say what to do.
#pragma once
#include "app/hub/access.h"
#include "app/hub/http_client.h"
#include "engine/core/error.h"
#include "engine/files/hub_cache.h"

namespace ft::hub {

// The hub has no such model or data set, or hides a private one.
struct RepositoryMissing : UserError {
  using UserError::UserError;
};

// Throws the error of a response with status 400 or above from `origin`. `home`: it is the hub itself and
// not a host of its files. Throws Trouble if the same request may succeed later.
[[noreturn]] void refuse(const HttpHead& reply, const std::string& origin, bool home, const Access& access,
                         const HubName& name);

}  // namespace ft::hub
