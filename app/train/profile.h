// ft profile: a few steps of a run, of which the last is profiled. Nothing is trained that would stay.
#pragma once
#include "app/config/args.h"
#include "engine/core/error.h"

namespace ft {

struct ProfileArgs : ConfigArgs {
  bool json = false;
};
Exit profile(const ProfileArgs&);

}  // namespace ft
