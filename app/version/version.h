// The version of this ft.
#pragma once
#include "engine/core/error.h"

namespace ft {

extern const char* const kVersion;  // e.g. 0.2.0
extern const char* const kCommit;   // commit of the sources; empty: unknown

// Arguments of ft --version [--json].
struct VersionArgs {
  bool json = false;
};
Exit version(const VersionArgs&);

}  // namespace ft
