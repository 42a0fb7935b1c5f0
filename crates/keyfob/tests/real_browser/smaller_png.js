// Encodes a PNG anew, with 256 colours: text on plain grounds becomes a third as large. It gets the picture as `picture`
// in Base64, and calls back with another one.
const done = arguments[0];
// Colours that nobody tells apart: a rare colour gets a place only if it is farther from all that are more frequent.
const NEAR = 6;
(async () => {
  const bytes = Uint8Array.from(atob(picture), (byte) => byte.charCodeAt(0));
  const bitmap = await createImageBitmap(new Blob([bytes]));
  const { width, height } = bitmap;
  const context = new OffscreenCanvas(width, height).getContext('2d');
  context.drawImage(bitmap, 0, 0);
  const pixels = new Uint32Array(context.getImageData(0, 0, width, height).data.buffer);

  const counts = new Map();
  for (const pixel of pixels) counts.set(pixel, (counts.get(pixel) ?? 0) + 1);
  const colors = [...counts.keys()].sort((one, other) => counts.get(other) - counts.get(one));
  const parts = (color) => [color & 255, (color >> 8) & 255, (color >> 16) & 255];
  const palette = [];
  const distances = (color) => {
    const wanted = parts(color);
    return palette.map((each) => Math.hypot(...each.map((part, index) => part - wanted[index])));
  };
  for (const color of colors) {
    if (palette.length < 256 && Math.min(...distances(color)) > NEAR) palette.push(parts(color));
  }
  const nearest = (color) => {
    const far = distances(color);
    return far.indexOf(Math.min(...far));
  };
  const indexes = new Map(colors.map((color) => [color, nearest(color)]));
  // A zero before each line: no filter.
  const lines = new Uint8Array((width + 1) * height);
  pixels.forEach((pixel, at) => { lines[at + Math.floor(at / width) + 1] = indexes.get(pixel); });
  const deflated = new Blob([lines]).stream().pipeThrough(new CompressionStream('deflate'));

  const checksum = (bytes) => {
    let sum = 0xffffffff;
    for (const byte of bytes) {
      sum ^= byte;
      for (let bit = 0; bit < 8; bit += 1) sum = (sum >>> 1) ^ (sum & 1 ? 0xedb88320 : 0);
    }
    return ~sum;
  };
  const numbers = (...values) => values.flatMap((value) => [24, 16, 8, 0].map((shift) => (value >>> shift) & 255));
  const chunk = (name, data) => {
    const named = Uint8Array.from([...name].map((letter) => letter.charCodeAt(0)).concat([...data]));
    return [...numbers(data.length), ...named, ...numbers(checksum(named))];
  };
  const png = [
    0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a,
    // 8 bits for each pixel, which are an index of the palette.
    ...chunk('IHDR', [...numbers(width, height), 8, 3, 0, 0, 0]),
    ...chunk('PLTE', palette.flat()),
  ].concat(
    chunk('IDAT', new Uint8Array(await new Response(deflated).arrayBuffer())),
    chunk('IEND', []),
  );
  done(btoa(png.map((byte) => String.fromCharCode(byte)).join('')));
})();
