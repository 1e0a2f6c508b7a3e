#include "app/hub/http_client.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <ctime>
#include <exception>
#include <utility>

#include "app/hub/curl_library.h"
#include "engine/core/error.h"
#include "engine/core/lower_case.h"

namespace ft::hub {
namespace {

struct Free {
  void operator()(CURL* c) const { curl().easy_cleanup(c); }
  void operator()(CURLU* u) const { curl().url_cleanup(u); }
  void operator()(curl_slist* l) const { curl().slist_free_all(l); }
};

using Handle = std::unique_ptr<CURL, Free>;
using Url = std::unique_ptr<CURLU, Free>;
using List = std::unique_ptr<curl_slist, Free>;

std::string part_of(CURLU* url, CURLUPart part, unsigned int flags = 0) {
  char* text = nullptr;
  if (curl().url_get(url, part, &text, flags) != CURLUE_OK) return "";
  std::string copy = text;
  curl().free(text);
  return copy;
}

std::string trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && text.back() <= ' ' && text.back() >= 0) text.remove_suffix(1);
  return std::string(text);
}

// State of the library's callbacks during one request.
struct Exchange {
  const HttpSink& sink;
  const std::function<bool()>& stop;
  const HttpBody& body;
  std::int64_t sent = 0;  // bytes of the body
  HttpHead head{};
  std::exception_ptr failed{};

  // Takes a line of the head. A status line begins a new one: an earlier one was "100 Continue".
  void take_line(std::string_view line) {
    constexpr std::size_t kMostFields = 200;
    if (line.starts_with("HTTP/")) {
      head = {};
      const std::size_t blank = line.find(' ');
      for (const char c : blank == line.npos ? "" : line.substr(blank + 1, 3))
        head.status = head.status * 10 + (c >= '0' && c <= '9' ? c - '0' : 0);
    } else if (const std::size_t colon = line.find(':'); colon != line.npos) {
      if (head.fields.size() < kMostFields)
        head.fields[lower_case(std::string(line.substr(0, colon)))] = trimmed(line.substr(colon + 1));
    }
  }
  bool take_body(std::string_view part) {
    try {
      sink(head, part);
      return true;
    } catch (...) {
      failed = std::current_exception();
      return false;
    }
  }
};

std::size_t on_send(char* to, std::size_t size, std::size_t count, void* pointer) {
  auto& exchange = *static_cast<Exchange*>(pointer);
  const auto room = static_cast<std::int64_t>(size * count);
  const std::int64_t bytes = std::min(room, exchange.body.size - exchange.sent);
  try {
    if (bytes > 0) exchange.body.read(exchange.sent, to, bytes);
  } catch (...) {
    exchange.failed = std::current_exception();
    return CURL_READFUNC_ABORT;
  }
  exchange.sent += bytes;
  return static_cast<std::size_t>(bytes);
}

int on_seek(void* exchange, curl_off_t offset, int origin) {
  if (origin != SEEK_SET) return CURL_SEEKFUNC_CANTSEEK;
  static_cast<Exchange*>(exchange)->sent = offset;
  return CURL_SEEKFUNC_OK;
}

std::size_t on_line(char* data, std::size_t size, std::size_t count, void* exchange) {
  static_cast<Exchange*>(exchange)->take_line({data, size * count});
  return size * count;
}

std::size_t on_body(char* data, std::size_t size, std::size_t count, void* exchange) {
  const bool taken = static_cast<Exchange*>(exchange)->take_body({data, size * count});
  return taken ? size * count : 0;
}

int on_progress(void* exchange, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  const auto& stop = static_cast<Exchange*>(exchange)->stop;
  return stop && stop() ? 1 : 0;
}

// Keeps SIGPIPE from this thread: TLS raises it when a server has closed the connection, and a pull would
// take it for a closed output.
class WithoutBrokenPipes {
 public:
  WithoutBrokenPipes() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~WithoutBrokenPipes() {
    const timespec now{};
    if (sigismember(&before_, SIGPIPE) == 0) sigtimedwait(&pipe_, nullptr, &now);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  WithoutBrokenPipes(const WithoutBrokenPipes&) = delete;
  WithoutBrokenPipes& operator=(const WithoutBrokenPipes&) = delete;

 private:
  sigset_t pipe_{}, before_{};
};

class CurlClient final : public HttpClient {
 public:
  explicit CurlClient(HttpOptions options) : options_(std::move(options)) {
    handle_.reset(curl().easy_init());
    require(handle_ != nullptr, "libcurl");
  }

  HttpHead send(const HttpRequest& request, const HttpSink& sink) override {
    Exchange exchange{sink, options_.stop, request.body};
    std::array<char, CURL_ERROR_SIZE> detail{};
    const List fields = prepare(request, exchange, detail.data());
    const CURLcode code = [this] {
      const WithoutBrokenPipes quiet;
      return curl().easy_perform(handle_.get());
    }();
    curl().easy_reset(handle_.get());  // keeps the connections; forgets the token and pointers of this call
    if (exchange.failed) std::rethrow_exception(exchange.failed);
    if (code != CURLE_OK) fail(code, detail[0] ? detail.data() : curl().easy_strerror(code));
    return exchange.head;
  }

 private:
  template <class Value>
  void set(CURLoption option, Value value) {
    require(curl().easy_setopt(handle_.get(), option, value) == CURLE_OK, "an option of libcurl");
  }

  List prepare(const HttpRequest& request, Exchange& exchange, char* detail) {
    set(CURLOPT_URL, request.url.c_str());
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_NOBODY, request.method == HttpMethod::head ? 1L : 0L);
    prepare_body(request, exchange);
    set(CURLOPT_USERAGENT, "ft");
    if (request.from > 0) set(CURLOPT_RANGE, str(request.from, "-").c_str());
    List fields = fields_of(request);
    set(CURLOPT_HTTPHEADER, fields.get());
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    set(CURLOPT_CONNECTTIMEOUT, static_cast<long>(options_.connect_seconds));
    set(CURLOPT_LOW_SPEED_LIMIT, 1L);
    set(CURLOPT_LOW_SPEED_TIME, static_cast<long>(options_.silent_seconds));
    // Refused if the call before found no host: its buffer, of this size, is still there.
    curl().easy_setopt(handle_.get(), CURLOPT_BUFFERSIZE, 256L << 10);
    if (!options_.certificates.empty()) set(CURLOPT_CAINFO, options_.certificates.c_str());
    set(CURLOPT_ERRORBUFFER, detail);
    set(CURLOPT_HEADERFUNCTION, on_line);
    set(CURLOPT_HEADERDATA, &exchange);
    set(CURLOPT_WRITEFUNCTION, on_body);
    set(CURLOPT_WRITEDATA, &exchange);
    set(CURLOPT_NOPROGRESS, 0L);
    set(CURLOPT_XFERINFOFUNCTION, on_progress);
    set(CURLOPT_XFERINFODATA, &exchange);
    return fields;
  }

  // Returns the lines of the head. The body is sent at once: a server that says "100 Continue" first is not
  // waited for.
  static List fields_of(const HttpRequest& request) {
    std::vector<std::string> lines = request.fields;
    if (!request.token.empty()) lines.push_back("Authorization: Bearer " + request.token);
    if (request.method == HttpMethod::post || request.method == HttpMethod::put)
      lines.emplace_back("Expect:");
    List fields;
    for (const std::string& line : lines) {
      curl_slist* longer = curl().slist_append(fields.get(), line.c_str());
      require(longer != nullptr, "libcurl");
      static_cast<void>(fields.release());
      fields.reset(longer);
    }
    return fields;
  }

  void prepare_body(const HttpRequest& request, Exchange& exchange) {
    if (request.method == HttpMethod::post) {
      set(CURLOPT_POST, 1L);
      set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size));
    } else if (request.method == HttpMethod::put) {
      set(CURLOPT_UPLOAD, 1L);
      set(CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(request.body.size));
    } else {
      return;
    }
    set(CURLOPT_READFUNCTION, on_send);
    set(CURLOPT_READDATA, &exchange);
    set(CURLOPT_SEEKFUNCTION, on_seek);
    set(CURLOPT_SEEKDATA, &exchange);
  }

  [[noreturn]] void fail(CURLcode code, const std::string& why) const {
    if (code == CURLE_ABORTED_BY_CALLBACK) throw Stopped();
    if (code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE)
      throw UserError(Exit::mismatch,
                      str("the server's certificate is not trusted: ", printable(why),
                          "\n  a company's proxy may need its own authority: SSL_CERT_FILE=FILE names it",
                          options_.certificates.empty() ? "" : "; now it is " + options_.certificates));
    throw ConnectionFailed(printable(why));
  }

  HttpOptions options_;
  Handle handle_;
};

}  // namespace

HttpBody text_body(std::string text) {
  const auto size = std::ssize(text);
  return {size, [text = std::move(text)](std::int64_t at, char* to, std::int64_t bytes) {
            std::memcpy(to, text.data() + at, static_cast<std::size_t>(bytes));
          }};
}

const std::string& HttpHead::field(const std::string& name) const {
  static const std::string none;
  const auto found = fields.find(name);
  return found == fields.end() ? none : found->second;
}

std::unique_ptr<HttpClient> make_http_client(HttpOptions options) {
  return std::make_unique<CurlClient>(std::move(options));
}

std::string resolved_url(const std::string& base, const std::string& location) {
  const Url url(curl().url());
  const unsigned int lenient = CURLU_URLENCODE;  // a Location may hold blanks
  if (curl().url_set(url.get(), CURLUPART_URL, base.c_str(), 0) != CURLUE_OK ||
      curl().url_set(url.get(), CURLUPART_URL, location.c_str(), lenient) != CURLUE_OK)
    return "";
  return part_of(url.get(), CURLUPART_URL);
}

std::string origin_of(const std::string& url) {
  const Url parts(curl().url());
  if (curl().url_set(parts.get(), CURLUPART_URL, url.c_str(), 0) != CURLUE_OK) return "";
  const std::string port = part_of(parts.get(), CURLUPART_PORT, CURLU_NO_DEFAULT_PORT);
  return part_of(parts.get(), CURLUPART_SCHEME) + "://" + lower_case(part_of(parts.get(), CURLUPART_HOST)) +
         (port.empty() ? "" : ":" + port);
}

std::string percent_encoded(std::string_view text, std::string_view keep) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    const auto byte = static_cast<unsigned char>(c);
    if (plain || std::string_view("-._~").find(c) != std::string_view::npos || keep.find(c) != keep.npos)
      out += c;
    else
      out.append(1, '%').append(1, kDigits[byte >> 4]).append(1, kDigits[byte & 15]);
  }
  return out;
}

std::optional<double> retry_after(const std::string& field) {
  constexpr std::size_t kMostDigits = 9;
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  if (!field.empty() && field.size() <= kMostDigits && std::all_of(field.begin(), field.end(), digit))
    return std::stod(field);
  const time_t date = curl().getdate(field.c_str(), nullptr);
  if (date < 0) return std::nullopt;
  return std::max(0.0, std::difftime(date, std::time(nullptr)));
}

}  // namespace ft::hub
