#include "app/http/http.h"

#include <arpa/inet.h>
#include <httplib.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <condition_variable>
#include <cstdlib>
#include <map>
#include <mutex>
#include <thread>

#include "app/http/connection.h"
#include "engine/core/error.h"

namespace ft {
namespace {

constexpr std::int64_t kHeaders = std::int64_t{64} << 10;  // bytes of a request without its body
constexpr std::size_t kRequests = 1000;                    // requests of a connection

// Starts a thread for each connection, up to a limit. At the limit the accepting thread waits, and new
// connections wait in the kernel's queue, which is short.
class Threads final : public httplib::TaskQueue {
 public:
  explicit Threads(std::int64_t most) : most_(most) {}
  using Enqueued = decltype(std::declval<httplib::TaskQueue&>().enqueue({}));  // void; newer versions: bool

  Enqueued enqueue(std::function<void()> task) override {
    std::unique_lock lock(mutex_);
    while (changed_.wait(lock, [&] { return running_ < most_; }), !start(task))
      changed_.wait_for(lock, kRetry);  // the machine has no thread left until some end
    ++running_;
    return Enqueued(true);
  }
  void shutdown() override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return running_ == 0; });
  }

 private:
  // Starts a thread. Call it with the mutex held, so that the thread is counted before it ends. Returns false
  // if the machine has no thread left.
  bool start(const std::function<void()>& task) try {
    std::thread([this, task] {
      try {
        task();
      } catch (const std::exception&) {  // an error of this connection only
      }
      std::unique_lock done(mutex_);
      --running_;
      std::notify_all_at_thread_exit(changed_, std::move(done));
    }).detach();
    return true;
  } catch (const std::system_error&) {
    return false;
  }

  static constexpr std::chrono::milliseconds kRetry{50};
  std::int64_t most_, running_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
};

// Adapts a Connection to the library's stream.
class LibraryStream final : public httplib::Stream {
 public:
  explicit LibraryStream(Connection& c) : connection_(c) {}
  bool is_readable() const override { return true; }
  bool is_writable() const override { return !connection_.gone(); }
  ssize_t read(char* to, std::size_t size) override { return connection_.read(to, size); }
  ssize_t write(const char* from, std::size_t size) override { return connection_.write(from, size); }
  void get_remote_ip_and_port(std::string& ip, int& port) const override { ip.clear(), port = 0; }
  void get_local_ip_and_port(std::string& ip, int& port) const override { ip.clear(), port = 0; }
  socket_t socket() const override { return connection_.socket(); }

 private:
  Connection& connection_;
};

// Serves one request. Newer versions of the library have removed the parameters for addresses, which ft does
// not use.
bool serve_one(auto& process, httplib::Stream& stream, bool last, bool& closed) {
  const std::function<void(httplib::Request&)> nothing_to_add = [](httplib::Request&) {};
  if constexpr (requires { process(stream, last, closed, nothing_to_add); })
    return process(stream, last, closed, nothing_to_add);
  else
    return process(stream, "", 0, "", 0, last, closed, nothing_to_add);
}

void listen_alone(socket_t s) {  // by default another program can listen at the same port
  const int yes = 1;
  setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
}

class Listener final : public httplib::Server {
 public:
  Listener(HttpLimits limits, HttpServer::Handler handler, std::optional<TlsContext> tls)
      : limits_(limits), handler_(std::move(handler)), tls_(std::move(tls)) {
    new_task_queue = [this] { return new Threads(limits_.connections); };
    set_socket_options(listen_alone);
    set_tcp_nodelay(true);
    set_keep_alive_max_count(kRequests);  // the number that replies report
    set_keep_alive_timeout(limits_.idle_seconds);
    const auto without_body = [this](const httplib::Request& request, httplib::Response& response) {
      answer(request, response, {});
    };
    Get(".*", without_body).Options(".*", without_body).Delete(".*", without_body);
    const auto with_body = [this](const httplib::Request& request, httplib::Response& response,
                                  const httplib::ContentReader& reader) {
      answer(request, response, read_body(request, reader));
    };
    Post(".*", with_body).Put(".*", with_body).Patch(".*", with_body);
  }
  std::atomic<bool> stopping{false};
  std::atomic<int> at_work{0};  // number of current requests

 private:
  struct Body {
    std::string text;
    bool too_large = false;
  };
  Body read_body(const httplib::Request& request, const httplib::ContentReader& reader) const {
    Body body;
    const auto said = std::strtoull(request.get_header_value("Content-Length").c_str(), nullptr, 10);
    if ((body.too_large = said > static_cast<unsigned long long>(limits_.body))) return body;
    reader([&](const char* data, std::size_t size) {
      body.too_large = body.text.size() + size > static_cast<std::size_t>(limits_.body);
      if (!body.too_large) body.text.append(data, size);
      return !body.too_large;
    });
    return body;
  }

  void answer(const httplib::Request& request, httplib::Response& response, Body body) {
    Connection* connection = own_connection();
    if (body.too_large) {
      body.text.clear();
      connection->end();
      response.set_header("Connection", "close");
    }
    const auto header = [&](const char* name) { return request.get_header_value(name); };
    const HttpRequest r{.method = request.method,
                        .path = request.path,
                        .host = header("Host"),
                        .origin = header("Origin"),
                        .authorization = header("Authorization"),
                        .content_type = header("Content-Type"),
                        .if_none_match = header("If-None-Match"),
                        .body = std::move(body.text),
                        .too_large = body.too_large,
                        .gone = [connection] { return connection->gone(); }};
    HttpReply reply = handler_(r);
    response.status = reply.status;
    for (const auto& [name, value] : reply.headers) response.set_header(name, value);
    if (!reply.next) return response.set_content(reply.body, reply.type);
    response.set_header("Cache-Control", "no-cache");
    response.set_chunked_content_provider(
        "text/event-stream", [next = std::move(reply.next)](std::size_t, httplib::DataSink& sink) {
          try {
            const std::optional<std::string> piece = next();
            if (!piece) return sink.done(), true;
            return sink.write(piece->data(), piece->size());
          } catch (const std::exception&) {  // the library does not catch it
            return false;
          }
        });
  }

  bool process_and_close_socket(socket_t socket) override {
    using std::chrono::seconds;
    Connection connection(socket,
                          {limits_.body + kHeaders, seconds(limits_.request_seconds),
                           seconds(limits_.write_seconds), seconds(limits_.idle_seconds)},
                          stopping, tls_ ? &*tls_ : nullptr);
    if (!connection.greet()) return false;
    set_own_connection(&connection);
    LibraryStream stream(connection);
    auto process = [this](auto&&... arguments) -> decltype(process_request(
                                                   std::forward<decltype(arguments)>(arguments)...)) {
      return process_request(std::forward<decltype(arguments)>(arguments)...);
    };
    bool fine = true, closed = false;
    for (std::size_t left = kRequests; fine && !closed && left > 0 && connection.wait_for_request(); --left) {
      ++at_work;
      fine = serve_one(process, stream, left == 1 || stopping, closed);
      --at_work;
    }
    set_own_connection(nullptr);
    return fine;
  }

  // Sets the connection that this thread serves, because the library does not pass it to handlers.
  void set_own_connection(Connection* c) {
    const std::lock_guard lock(mutex_);
    if (c)
      connections_[std::this_thread::get_id()] = c;
    else
      connections_.erase(std::this_thread::get_id());
  }
  Connection* own_connection() {
    const std::lock_guard lock(mutex_);
    return connections_.at(std::this_thread::get_id());
  }

  HttpLimits limits_;
  HttpServer::Handler handler_;
  std::optional<TlsContext> tls_;
  std::mutex mutex_;
  std::map<std::thread::id, Connection*> connections_;
};

}  // namespace

struct HttpServer::Parts {
  Parts(HttpLimits limits, Handler handler, const std::string& at, std::optional<TlsContext> tls)
      : host(at), scheme(tls ? "https" : "http"), listener(limits, std::move(handler), std::move(tls)) {}
  std::string host, scheme;
  Listener listener;
  int port = 0;
  std::atomic<bool> ended{false};  // accepts no more
  std::thread accepting;
};

HttpServer::HttpServer(const std::string& host, int port, HttpLimits limits, Handler handler,
                       std::optional<TlsContext> tls)
    : parts_(std::make_unique<Parts>(limits, std::move(handler), host, std::move(tls))) {
  Listener& listener = parts_->listener;
  parts_->port = port == 0 ? listener.bind_to_any_port(host) : port;
  if (parts_->port < 0 || (port != 0 && !listener.bind_to_port(host, port)))
    throw UserError(Exit::config, str("cannot listen at ", printable(host), " port ", port,
                                      ": the port is taken, or the address is not this machine's; --port 0 "
                                      "takes any free one"));
  parts_->accepting = std::thread([&listener, &ended = parts_->ended] {
    listener.listen_after_bind();
    ended = true;
  });
  while (!listener.is_running() && !parts_->ended) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

std::string HttpServer::address() const {
  const std::string& host = parts_->host;
  return str(parts_->scheme, "://", host.find(':') == std::string::npos ? host : "[" + host + "]", ":",
             port());
}

std::optional<TlsContext> https_of(const CertificateFiles& files) {
  if (files.certificate.empty() && files.key.empty()) return std::nullopt;
  if (files.key.empty()) throw UserError(Exit::config, "--tls-cert needs --tls-key, the certificate's key");
  if (files.certificate.empty())
    throw UserError(Exit::config, "--tls-key needs --tls-cert, the certificate of the key");
  return TlsContext::of_server(files.certificate, files.key);
}

int HttpServer::port() const { return parts_->port; }

// Waits for the requests before it stops the library, because stopping cuts streams.
HttpServer::~HttpServer() {
  constexpr std::chrono::milliseconds kCheck{5};
  parts_->listener.stopping = true;
  while (parts_->listener.at_work > 0) std::this_thread::sleep_for(kCheck);
  parts_->listener.stop();
  parts_->accepting.join();
}

}  // namespace ft
