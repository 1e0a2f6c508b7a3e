// ft profile: runs a few steps and profiles the last. Saves no training result.
#pragma once
#include "app/config/args.h"
#include "engine/core/error.h"

namespace ft {

struct ProfileArgs : ConfigArgs {
  bool json = false;
};
Exit profile(const ProfileArgs&);

}  // namespace ft
