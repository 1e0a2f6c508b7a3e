// libcurl, which ft loads when it opens a connection.
#include "app/hub/curl_library.h"

#include <gtest/gtest.h>

#include "app/hub/http_client.h"
#include "engine/core/error.h"
#include "tests/data/scratch.h"

namespace ft::hub {
namespace {

using test::error_of;

TEST(CurlLibrary, TakesTheFirstThatIsFound) {
  EXPECT_NE(load_curl({"libnowhere.so.1", "libcurl.so.4"}).easy_perform, nullptr);
  EXPECT_TRUE(http_library_version().starts_with("libcurl ")) << http_library_version();
}

TEST(CurlLibrary, AMissingOneIsNamedWithItsPackage) {
  const std::string message = error_of(Exit::hardware, [] { load_curl({"libnowhere.so.1"}); });
  EXPECT_NE(message.find("libnowhere.so.1 is not found here; install it: apt-get install libcurl4"),
            std::string::npos)
      << message;
}

TEST(CurlLibrary, AnotherLibraryIsNotTakenForIt) {
  const std::string message = error_of(Exit::hardware, [] { load_curl({"libz.so.1"}); });
  EXPECT_NE(message.find("has no curl_global_init; install it"), std::string::npos) << message;
}

}  // namespace
}  // namespace ft::hub
