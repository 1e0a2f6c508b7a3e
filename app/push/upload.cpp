#include "app/push/upload.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace ft::hub {
namespace {

class Upload {
 public:
  Upload(const Uploading& u, const Addition& addition)
      : u_(u), addition_(addition), file_(*addition.file), patience_(u.pause, u.stop) {}

  void run(UploadOrder order) {
    for (;;) {
      try {
        return follow(order);
      } catch (const Trouble& trouble) {
        wait_after(trouble);
        u_.progress.there -= std::exchange(counted_, 0);
      }
      // The hub signs new addresses, or has the file by now.
      std::optional<UploadOrder> next = order_again();
      if (!next) {
        count(file_.size);
        return;
      }
      order = std::move(*next);
    }
  }

 private:
  void follow(const UploadOrder& order) {
    const HttpBody body = contents_of(file_);
    if (order.parts.empty())
      put(order.url, order.fields, body);
    else
      put_parts(order, body);
    u_.writer.verify(order, addition_.hash, file_.size);
  }

  void put_parts(const UploadOrder& order, const HttpBody& body) {
    std::vector<std::string> etags;
    while (etags.size() < order.parts.size()) {
      const std::int64_t at = order.part_bytes * std::ssize(etags), before = counted_;
      const HttpBody part = part_of(body, at, std::min(order.part_bytes, file_.size - at));
      try {
        etags.push_back(put(order.parts[etags.size()], {}, part));
        if (etags.size() > farthest_) {
          farthest_ = etags.size();
          patience_.progressed();
        }
      } catch (const AddressExpired&) {
        throw;
      } catch (const Trouble& trouble) {
        wait_after(trouble);
        u_.progress.there -= std::exchange(counted_, before) - before;
        continue;
      }
      if (etags.back().empty())
        throw UserError(Exit::input,
                        str(origin_of(order.url), ": gives no ETag for a part of ", printable(file_.path)));
    }
    u_.writer.complete(order, addition_.hash, etags);
  }

  // Sends bytes to an address and returns the answer's ETag.
  std::string put(const std::string& url, const std::vector<std::string>& fields, const HttpBody& body) {
    std::int64_t farthest = 0;
    const HttpBody counted{body.size, [&](std::int64_t at, char* to, std::int64_t bytes) {
                             body.read(at, to, bytes);
                             if (at + bytes <= farthest) return;  // sent once more
                             count(at + bytes - farthest);
                             u_.progress.moved += at + bytes - farthest;
                             farthest = at + bytes;
                           }};
    const HttpHead reply =
        u_.writer.client().send({.method = HttpMethod::put, .url = url, .fields = fields, .body = counted},
                                [](const HttpHead&, std::string_view) {});
    return reply.field("etag");
  }

  std::optional<UploadOrder> order_again() {
    for (;;) {
      try {
        return u_.writer.order({&addition_}).front();
      } catch (const Trouble& trouble) {
        wait_after(trouble);
      }
    }
  }

  void count(std::int64_t bytes) {
    counted_ += bytes;
    u_.progress.there += bytes;
  }

  void wait_after(const Trouble& trouble) {
    if (!std::exchange(noted_, true))
      u_.progress.note(str(printable(file_.path), ": ", trouble.what(), "; trying again"));
    patience_.wait(trouble);
  }

  const Uploading& u_;
  const Addition& addition_;
  const LocalFile& file_;
  Patience patience_;
  std::int64_t counted_ = 0;  // bytes of the file in the progress
  std::size_t farthest_ = 0;  // parts that arrived in any attempt
  bool noted_ = false;        // a trouble was shown
};

}  // namespace

void upload(const Uploading& u, const Addition& addition, UploadOrder order) {
  Upload(u, addition).run(std::move(order));
}

}  // namespace ft::hub
