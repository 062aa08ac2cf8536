#!/usr/bin/env bash
# cudaguidedmatte refines a coarse matte: pipelines/guidedmatte.sh [CLIP [FOLDER]]
#
# With a CLIP of a green screen, the coarse matte is a chroma key. Without a CLIP, a camera passes a
# portrait, and the coarse matte is the drawing below. It has squares of 16 pixels and a flickering
# edge, like the mask of a segmentation network. guidedmatte.mp4 then shows three cut-outs side by
# side: by the drawing, after the guided filter alone, and after local colours and the guided
# filter. The filter also steadies the edge and corrects the subject's colours.
#
# guidedmatte-blur.mp4 shows the subject before its own blurred background, and
# guidedmatte-behind.mp4 shows it before another video. A compositor makes the latter:
# cudacompositor if GStreamer has it (1.26).
set -euo pipefail
. "$(dirname "$0")/../scripts/pipeline.sh"
prepare "$@"
backdrop=checker

if [ -n "${1-}" ] || ! photo=$(portrait); then
  if cuda_memory cudaguidedmatte; then
    gst-launch-1.0 filesrc location="$clip" ! decodebin ! videoconvert ! identity eos-after=250 \
      ! videocrop right="$odd_x" bottom="$odd_y" ! cudaupload ! 'video/x-raw(memory:CUDAMemory),format=RGBA' \
      ! cudaguidedmatte mask=chroma-key key-color=0x00b140 key-tolerance=0.15 despill=1 output=composite background-color=0xff4a8a5a \
      ! cudadownload ! videoconvert ! video/x-raw,format=I420 ! x264enc speed-preset=veryfast bitrate=6000 ! h264parse \
      ! mp4mux ! filesink location="$folder/guidedmatte.mp4"
  else
    gst-launch-1.0 filesrc location="$clip" ! decodebin ! videoconvert ! identity eos-after=250 \
      ! videocrop right="$odd_x" bottom="$odd_y" ! video/x-raw,format=RGBA \
      ! cudaguidedmatte mask=chroma-key key-color=0x00b140 key-tolerance=0.15 despill=1 output=composite background-color=0xff4a8a5a \
      ! videoconvert ! video/x-raw,format=I420 ! x264enc speed-preset=veryfast bitrate=6000 ! h264parse \
      ! mp4mux ! filesink location="$folder/guidedmatte.mp4"
  fi
  if cuda_memory cudaguidedmatte; then
    gst-launch-1.0 filesrc location="$clip" ! decodebin ! videoconvert ! identity eos-after=250 \
      ! videocrop right="$odd_x" bottom="$odd_y" ! cudaupload ! 'video/x-raw(memory:CUDAMemory),format=RGBA' \
      ! cudaguidedmatte mask=chroma-key key-color=0x00b140 key-tolerance=0.15 output=composite background=blur background-sigma=12 \
      ! cudadownload ! videoconvert ! video/x-raw,format=I420 ! x264enc speed-preset=veryfast bitrate=6000 ! h264parse \
      ! mp4mux ! filesink location="$folder/guidedmatte-blur.mp4"
  else
    gst-launch-1.0 filesrc location="$clip" ! decodebin ! videoconvert ! identity eos-after=250 \
      ! videocrop right="$odd_x" bottom="$odd_y" ! video/x-raw,format=RGBA \
      ! cudaguidedmatte mask=chroma-key key-color=0x00b140 key-tolerance=0.15 output=composite background=blur background-sigma=12 \
      ! videoconvert ! video/x-raw,format=I420 ! x264enc speed-preset=veryfast bitrate=6000 ! h264parse \
      ! mp4mux ! filesink location="$folder/guidedmatte-blur.mp4"
  fi
  if cuda_memory cudaguidedmatte && has_element cudacompositor; then
    gst-launch-1.0 cudacompositor name=over sink_0::zorder=0 sink_1::zorder=1 \
      ! cudadownload ! videoconvert ! video/x-raw,format=I420 ! x264enc speed-preset=veryfast bitrate=6000 \
      ! h264parse ! mp4mux ! filesink location="$folder/guidedmatte-behind.mp4" \
      filesrc location="$clip" ! decodebin ! videoconvert ! identity eos-after=250 \
      ! videocrop right="$odd_x" bottom="$odd_y" ! tee name=clip \
      clip. ! queue ! videoflip method=horizontal-flip ! videoconvert ! cudaupload \
      ! 'video/x-raw(memory:CUDAMemory),format=RGBA' ! over.sink_0 \
      clip. ! queue ! videoconvert ! cudaupload ! 'video/x-raw(memory:CUDAMemory),format=RGBA' \
      ! cudaguidedmatte mask=chroma-key key-color=0x00b140 key-tolerance=0.15 despill=1 foreground=estimate ! over.sink_1
  else
    gst-launch-1.0 compositor name=over sink_0::zorder=0 sink_1::zorder=1 \
      ! videoconvert ! video/x-raw,format=I420 ! x264enc speed-preset=veryfast bitrate=6000 \
      ! h264parse ! mp4mux ! filesink location="$folder/guidedmatte-behind.mp4" \
      filesrc location="$clip" ! decodebin ! videoconvert ! identity eos-after=250 \
      ! videocrop right="$odd_x" bottom="$odd_y" ! tee name=clip \
      clip. ! queue ! videoflip method=horizontal-flip ! over.sink_0 \
      clip. ! queue ! videoconvert ! video/x-raw,format=RGBA \
      ! cudaguidedmatte mask=chroma-key key-color=0x00b140 key-tolerance=0.15 despill=1 foreground=estimate ! over.sink_1
  fi
  say "  made $folder/guidedmatte.mp4, guidedmatte-blur.mp4 and guidedmatte-behind.mp4"
  compare guidedmatte cudaguidedmatte mask=chroma-key key-color=0x00b140 key-tolerance=0.15 despill=1
  exit
fi

frames=$(mktemp)
masks=$(mktemp)
picture=$(mktemp)
trap 'rm -f "$frames" "$masks" "$picture"' EXIT
"$root/scripts/coarsemask.py" 100 28 >"$masks" <<'END'
................................
............#####...............
............######..............
..........#########.............
..........#########.............
..........#########.............
..........#########.............
...........#######..............
...........######...............
.........########...............
........#########...............
........##########..............
.......############.............
.......############.............
.....###############............
....#################...........
...###################..........
...###################..........
END

# The masks become the photo's alpha: RGBA.
gst-launch-1.0 filesrc location="$photo" ! pngdec ! videocrop bottom=224 ! videoconvert \
  ! video/x-raw,format=RGBA,width=512,height=288 ! filesink location="$picture"
"$root/scripts/pan.py" 512 448 100 <"$picture" >"$frames.part"
gst-launch-1.0 alphacombine name=both ! videoconvert ! video/x-raw,format=RGBA ! filesink location="$frames" \
  filesrc location="$masks" ! rawvideoparse format=gray8 width=28 height=18 framerate=25/1 \
  ! videoscale method=nearest-neighbour ! video/x-raw,width=448,height=288 ! videoconvert \
  ! video/x-raw,format=GRAY8,colorimetry=1:4:0:0 ! queue ! both.alpha \
  filesrc location="$frames.part" ! rawvideoparse format=rgba width=448 height=288 framerate=25/1 \
  ! videoconvert ! video/x-raw,format=I420,colorimetry=1:4:0:0 ! queue ! both.sink
rm -f "$frames.part"

if cuda_memory cudaguidedmatte; then
  gst-launch-1.0 filesrc location="$frames" \
    ! rawvideoparse format=rgba width=448 height=288 framerate=25/1 ! tee name=cut \
    cut. ! queue ! side.sink_1 \
    cut. ! queue ! cudaupload ! 'video/x-raw(memory:CUDAMemory)' \
    ! cudaguidedmatte refine=guided temporal=0.95 foreground=estimate ! cudadownload ! queue ! side.sink_2 \
    cut. ! queue ! cudaupload ! 'video/x-raw(memory:CUDAMemory)' \
    ! cudaguidedmatte refine=colors temporal=0.95 foreground=estimate ! cudadownload ! queue ! side.sink_3 \
    videotestsrc num-buffers=100 pattern=solid-color foreground-color=0xff4a8a5a \
    ! video/x-raw,format=RGBA,width=1344,height=288,framerate=25/1 ! side.sink_0 \
    compositor name=side sink_0::zorder=0 sink_1::zorder=1 sink_2::zorder=2 sink_2::xpos=448 \
    sink_3::zorder=3 sink_3::xpos=896 \
    ! videoconvert ! video/x-raw,format=I420 ! x264enc speed-preset=veryfast bitrate=6000 ! h264parse ! mp4mux \
    ! filesink location="$folder/guidedmatte.mp4"
else
  gst-launch-1.0 filesrc location="$frames" \
    ! rawvideoparse format=rgba width=448 height=288 framerate=25/1 ! tee name=cut \
    cut. ! queue ! side.sink_1 \
    cut. ! queue ! cudaguidedmatte refine=guided temporal=0.95 foreground=estimate ! queue ! side.sink_2 \
    cut. ! queue ! cudaguidedmatte refine=colors temporal=0.95 foreground=estimate ! queue ! side.sink_3 \
    videotestsrc num-buffers=100 pattern=solid-color foreground-color=0xff4a8a5a \
    ! video/x-raw,format=RGBA,width=1344,height=288,framerate=25/1 ! side.sink_0 \
    compositor name=side sink_0::zorder=0 sink_1::zorder=1 sink_2::zorder=2 sink_2::xpos=448 \
    sink_3::zorder=3 sink_3::xpos=896 \
    ! videoconvert ! video/x-raw,format=I420 ! x264enc speed-preset=veryfast bitrate=6000 ! h264parse ! mp4mux \
    ! filesink location="$folder/guidedmatte.mp4"
fi

# The first output has the blurred background, the second another video.
if cuda_memory cudaguidedmatte && has_element cudacompositor; then
  gst-launch-1.0 cudacompositor name=over sink_0::zorder=0 sink_0::width=448 sink_0::height=288 sink_1::zorder=1 \
    ! cudadownload ! videoconvert ! video/x-raw,format=I420 ! x264enc speed-preset=veryfast bitrate=6000 \
    ! h264parse ! mp4mux ! filesink location="$folder/guidedmatte-behind.mp4" \
    filesrc location="$clip" ! decodebin ! videoconvert ! cudaupload \
    ! 'video/x-raw(memory:CUDAMemory),format=RGBA' ! identity eos-after=100 ! queue ! over.sink_0 \
    filesrc location="$frames" ! rawvideoparse format=rgba width=448 height=288 framerate=25/1 \
    ! cudaupload ! 'video/x-raw(memory:CUDAMemory)' ! cudaguidedmatte temporal=0.95 foreground=estimate \
    ! queue ! over.sink_1
else
  gst-launch-1.0 compositor name=over sink_0::zorder=0 sink_0::width=448 sink_0::height=288 sink_1::zorder=1 \
    ! videoconvert ! video/x-raw,format=I420 ! x264enc speed-preset=veryfast bitrate=6000 \
    ! h264parse ! mp4mux ! filesink location="$folder/guidedmatte-behind.mp4" \
    filesrc location="$clip" ! decodebin ! videoconvert ! identity eos-after=100 ! queue ! over.sink_0 \
    filesrc location="$frames" ! rawvideoparse format=rgba width=448 height=288 framerate=25/1 \
    ! cudaguidedmatte temporal=0.95 foreground=estimate ! queue ! over.sink_1
fi
if cuda_memory cudaguidedmatte; then
  gst-launch-1.0 filesrc location="$frames" ! rawvideoparse format=rgba width=448 height=288 framerate=25/1 \
    ! cudaupload ! 'video/x-raw(memory:CUDAMemory)' \
    ! cudaguidedmatte temporal=0.95 output=composite background=blur background-sigma=8 foreground=estimate \
    ! cudadownload ! videoconvert ! video/x-raw,format=I420 ! x264enc speed-preset=veryfast bitrate=6000 \
    ! h264parse ! mp4mux ! filesink location="$folder/guidedmatte-blur.mp4"
else
  gst-launch-1.0 filesrc location="$frames" ! rawvideoparse format=rgba width=448 height=288 framerate=25/1 \
    ! cudaguidedmatte temporal=0.95 output=composite background=blur background-sigma=8 foreground=estimate \
    ! videoconvert ! video/x-raw,format=I420 ! x264enc speed-preset=veryfast bitrate=6000 \
    ! h264parse ! mp4mux ! filesink location="$folder/guidedmatte-blur.mp4"
fi
say "  made $folder/guidedmatte.mp4, guidedmatte-blur.mp4 and guidedmatte-behind.mp4"

# The images show the last frame.
width=448 height=288
for name in guidedmatte guidedmatte-blur; do
  tail -c $((4 * width * height)) "$frames" >"$folder/.$name.still"
done
compare guidedmatte cudaguidedmatte refine=guided -- cudaguidedmatte refine=colors
compare guidedmatte-blur cudaguidedmatte output=composite background=blur background-sigma=8
