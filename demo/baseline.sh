#!/bin/sh
# The work of the seven stages by hand: the bare tools, with the flags that the stages use and as many at a
# time as the stages run. $1 is the recording, $2 a two-fifth of its length in seconds. The current folder
# takes the outputs and holds N.srt with the captions of each clip, and clips.txt: number, start and length in
# seconds.
set -eu
renice -n 10 $$ >/dev/null # as the stages run their tools
in=file:$1
open="-threads 1 -filter_threads 1 -max_error_rate 1 -protocol_whitelist file -max_pixels 8847360 -format_whitelist mov -f mov"
quiet="-nostdin -hide_banner -nostats -y -loglevel error"
formats=mov,matroska,avi,wav,mp3,ogg,flac,aac,mpegts,mpeg,flv
export OMP_THREAD_LIMIT=1

probe() {
	ffprobe -v error -protocol_whitelist file -format_whitelist $formats -of json -show_format -show_streams -i "file:$1" >"$2"
}

# shellcheck disable=SC2086 # $quiet and $open are meant to split
{
	# ingest: sound and pictures side by side
	probe "$1" source.json
	ffmpeg $quiet -loglevel info $open -i "$in" -map 0:a:0 -vn -sn -dn -map_metadata -1 \
		-af "aresample=async=1:first_pts=0,aformat=channel_layouts=mono,loudnorm=I=-16:TP=-1.5:LRA=11,silencedetect=noise=-35dB:d=0.5,aresample=16000" \
		-c:a pcm_s16le -f wav file:audio.wav 2>silence.txt &
	ffmpeg $quiet $open -i "$in" -map 0:V:0 -an -fps_mode passthrough -f null - \
		-map 0:V:0 -an -fps_mode passthrough -map_metadata -1 -frames:v 3 \
		-vf "select='gte(t,1+selected_n*$2)',scale='min(1280,iw)':-2" -q:v 4 file:poster%d.jpg
	wait

	# transcribe
	pocketsphinx_continuous -infile audio.wav -time yes -logfn /dev/null \
		-maxhmmpf 3000 -ds 2 -topn 2 -maxwpf 10 -pl_window 10 >words.txt

	# identify: pitch beside the names on screen
	aubiopitch -i audio.wav -u Hz -p yinfft -s -40 -l 0.8 -H 256 -B 1024 >pitch.txt &
	ffmpeg $quiet $open -i "$in" -map 0:V:0 -an -sn -dn -map_metadata -1 \
		-vf "fps=1000/500,crop=iw:ih*0.3:0:ih*0.7,scale='min(1280,iw)':-2,select='eq(n,0)+gt(scene,0.02)',format=gray" \
		-fps_mode vfr -enc_time_base 500/1000 -frame_pts 1 -frames:v 400 file:lower%06d.png
	ls lower*.png >lower.txt
	tesseract lower.txt - --psm 6 -l eng tsv >screen.tsv 2>/dev/null
	wait

	# compile: two clips at a time
	cut() { # number start length
		style="Fontname=DejaVu Sans,Fontsize=20.0,MarginV=16,Alignment=2,BorderStyle=4,BackColour=&H60000000,Outline=1,Shadow=1"
		ffmpeg $quiet $open -ss "$2" -t "$3" -i "$in" -map 0:V:0 -map 0:a:0 -af aresample=async=1:first_pts=0 -c:a aac -b:a 96k -ac 2 \
			-vf "fps=25:start_time=0,subtitles=$1.srt:force_style='$style',setsar=1,format=yuv420p" \
			-c:v libx264 -preset veryfast -crf 23 -threads 1 -map_metadata -1 -map_chapters -1 -sn -dn -t "$3" \
			-movflags +faststart -f mp4 "file:clip$1.mp4"
		probe "clip$1.mp4" "clip$1.json"
	}
	while read -r n start length; do
		cut "$n" "$start" "$length" &
		[ $((n % 2)) = 1 ] || wait
	done <clips.txt
	wait

	# publish: what is in the folder, and what made it
	for clip in clip*.mp4; do [ ! -e "$clip" ] || probe "$clip" "$clip.json"; done
	sha256sum ./*.mp4 ./*.jpg ./*.txt >sums
	{
		ffmpeg -version
		tesseract --version
		dpkg-query -W pocketsphinx aubio-tools
	} >versions
}
