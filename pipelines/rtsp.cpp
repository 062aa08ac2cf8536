// An RTSP server whose stream goes through a filter: rtsp [PORT [SOURCE [FILTER]]]
//
//   apt install g++ pkgconf libgstrtspserver-1.0-dev gstreamer1.0-plugins-ugly
//   g++ -std=c++17 pipelines/rtsp.cpp -o rtsp $(pkg-config --cflags --libs gstreamer-rtsp-server-1.0)
//   ./rtsp 8554 "v4l2src ! videoconvert" "cudadenoise"
//   ffplay rtsp://127.0.0.1:8554/live
//
// All clients share one pipeline, so that the camera is opened and filtered once. The pipeline starts with the
// first client and stops with the last. The server listens on 127.0.0.1; port 0 takes a free one. It prints a
// line when it is ready, and a line whenever a client comes or goes.
//
// Each start of the pipeline makes new threads, and glibc gives new threads new heaps that it keeps. Run a server
// that is to run for weeks with MALLOC_ARENA_MAX=2 in its environment: its resident memory then stays level.
#include <glib-unix.h>
#include <gst/gst.h>
#include <gst/rtsp-server/rtsp-server.h>

#include <cstdio>
#include <memory>
#include <string>

namespace {

struct Unref {
  void operator()(gpointer object) const { g_object_unref(object); }
  void operator()(GMainLoop* loop) const { g_main_loop_unref(loop); }
};
template <class T>
using Owned = std::unique_ptr<T, Unref>;

int clients = 0;

void show_clients() {
  printf("%d clients\n", clients);
  fflush(stdout);
}
void client_closed(GstRTSPClient*, gpointer) {
  clients--;
  show_clients();
}
void client_connected(GstRTSPServer*, GstRTSPClient* client, gpointer) {
  clients++;
  g_signal_connect(client, "closed", G_CALLBACK(client_closed), nullptr);
  show_clients();
}

// Clients that vanish without a word keep their session until it times out.
gboolean remove_old_sessions(gpointer server) {
  Owned<GstRTSPSessionPool> pool(gst_rtsp_server_get_session_pool(GST_RTSP_SERVER(server)));
  gst_rtsp_session_pool_cleanup(pool.get());
  return G_SOURCE_CONTINUE;
}

gboolean quit(gpointer loop) {
  g_main_loop_quit(static_cast<GMainLoop*>(loop));
  return G_SOURCE_REMOVE;
}

int run(int argc, char** argv) {
  const char* port = argc > 1 ? argv[1] : "8554";
  const std::string source = argc > 2 ? argv[2] : "videotestsrc is-live=true pattern=ball";
  const std::string filter = argc > 3 ? argv[3] : "cudadenoise";
  const std::string launch = "( " + source + " ! " + filter +
                             " ! videoconvert ! video/x-raw,format=I420"
                             " ! x264enc tune=zerolatency speed-preset=superfast key-int-max=30"
                             " ! rtph264pay name=pay0 pt=96 config-interval=-1 )";

  // A wrong element or property shows here, and not when the first client comes.
  GError* error = nullptr;
  if (GstElement* trial = gst_parse_launch(launch.c_str(), &error)) gst_object_unref(trial);
  if (error) {
    fprintf(stderr, "The pipeline cannot be made: %s\n", error->message);
    g_error_free(error);
    return 2;
  }

  Owned<GMainLoop> loop(g_main_loop_new(nullptr, FALSE));
  Owned<GstRTSPServer> server(gst_rtsp_server_new());
  gst_rtsp_server_set_address(server.get(), "127.0.0.1");
  gst_rtsp_server_set_service(server.get(), port);
  GstRTSPMediaFactory* factory = gst_rtsp_media_factory_new();
  gst_rtsp_media_factory_set_launch(factory, launch.c_str());
  gst_rtsp_media_factory_set_shared(factory, TRUE);
  Owned<GstRTSPMountPoints> mounts(gst_rtsp_server_get_mount_points(server.get()));
  gst_rtsp_mount_points_add_factory(mounts.get(), "/live", factory);  // takes the reference
  g_signal_connect(server.get(), "client-connected", G_CALLBACK(client_connected), nullptr);
  if (!gst_rtsp_server_attach(server.get(), nullptr)) {
    fprintf(stderr, "Port %s of 127.0.0.1 cannot be used.\n", port);
    return 1;
  }
  g_timeout_add_seconds(2, remove_old_sessions, server.get());
  g_unix_signal_add(SIGINT, quit, loop.get());
  g_unix_signal_add(SIGTERM, quit, loop.get());
  printf("ready at rtsp://127.0.0.1:%d/live\n", gst_rtsp_server_get_bound_port(server.get()));
  fflush(stdout);
  g_main_loop_run(loop.get());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  gst_init(&argc, &argv);
  return run(argc, argv);
}
